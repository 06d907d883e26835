CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT, email TEXT, joined TEXT, status TEXT, boat TEXT);
CREATE TABLE fees (id INTEGER PRIMARY KEY, member_id INTEGER, year INTEGER, amount REAL, paid_on TEXT);
CREATE TABLE boats (name TEXT PRIMARY KEY, kind TEXT, last_service TEXT);
INSERT INTO members VALUES (1,'Wanda Nowicki','wanda@rowing.example','2019-04-01','active','Heron'),(2,'Callum Reid','callum.reid@rowing.example','2022-05-11','active','Teal'),(3,'Sabine Hofer','s.hofer@rowing.example','2017-03-20','dormant',NULL),(4,'Yusuf Demir','yusuf@rowing.example','2024-06-02','active','Teal'),(5,'Ines Kowal','ines@brightloaf.example','2021-09-15','active','Heron');
INSERT INTO fees VALUES (1,1,2026,180,'2026-01-12'),(2,2,2026,180,NULL),(3,3,2026,60,NULL),(4,4,2026,180,'2026-02-03'),(5,5,2026,180,'2026-01-30');
INSERT INTO boats VALUES ('Heron','double scull','2026-03-02'),('Teal','double scull','2025-02-18'),('Coot','single','2024-10-10');
