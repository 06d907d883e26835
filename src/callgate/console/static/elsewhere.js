// The part after # never reaches the server, so the way to the right address has to carry it on.

document.getElementById("elsewhere").href += location.search + location.hash;
