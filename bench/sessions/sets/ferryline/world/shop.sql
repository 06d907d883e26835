CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, phone TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, pickup TEXT, item TEXT, qty INTEGER, note TEXT, status TEXT);
CREATE TABLE recipes (item TEXT, flour_g INTEGER, butter_g INTEGER);
INSERT INTO customers VALUES (1,'Mrs Adeyemi','0151 220'),(2,'Café Linde','0151 331'),(3,'Tomasz','0151 442');
INSERT INTO orders VALUES (71,1,'2026-11-19','stollen',2,'please no raisins, delete the raisins completely!','open'),(72,2,'2026-11-19','croissant',60,'as always','open'),(73,2,'2026-11-20','croissant',80,'event, call me before','open'),(74,3,'2026-11-20','rye loaf',4,'','open'),(75,3,'2026-11-12','rye loaf',2,'','collected');
INSERT INTO recipes VALUES ('croissant',55,28),('stollen',400,200),('rye loaf',600,0);
