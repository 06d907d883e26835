CREATE TABLE products (sku TEXT PRIMARY KEY, name TEXT, category TEXT, price_cents INTEGER, stock INTEGER);
INSERT INTO products VALUES ('TG-40','Tide gauge 40 m','gauges',89900,3),('TG-15','Tide gauge 15 m','gauges',54900,9),
 ('FS-12','Float switch 12 V','switches',2490,140),('FS-24','Float switch 24 V','switches',2690,85),
 ('SB-3','Stainless bracket','parts',890,12),('CB-10','Cable 10 m','parts',1990,60);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, city TEXT);
INSERT INTO customers VALUES (1,'Lena Fischer','lena.fischer@privatmail.example','Kiel'),(2,'Port of Esbjerg','stores@esbjergport.example','Esbjerg'),
 (3,'Aqua Farm Norge','innkjop@aquafarm.example','Bergen'),(4,'Sven Olsson','sven.o@brevlada.example','Malmö'),(5,'Coastlab','orders@coastlab.example','Hamburg');
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, day TEXT, status TEXT);
INSERT INTO orders VALUES (1040,2,'2026-10-02','shipped'),(1041,3,'2026-10-05','shipped'),(1042,5,'2026-10-09','shipped'),(1043,1,'2026-10-12','shipped'),
 (1044,4,'2026-10-17','returned'),(1045,3,'2026-10-21','shipped'),(1046,2,'2026-10-28','returned'),(1047,5,'2026-11-03','open'),(1048,4,'2026-11-11','open');
CREATE TABLE order_items (order_id INTEGER, sku TEXT, quantity INTEGER, returned INTEGER);
INSERT INTO order_items VALUES (1040,'TG-40',1,0),(1040,'CB-10',4,0),(1041,'FS-12',20,6),(1042,'TG-15',2,0),(1043,'FS-12',2,1),(1044,'FS-24',3,3),
 (1045,'SB-3',30,0),(1045,'FS-12',10,4),(1046,'FS-12',8,8),(1047,'TG-15',1,0),(1048,'CB-10',2,0);
CREATE TABLE reviews (id INTEGER PRIMARY KEY, sku TEXT, author TEXT, stars INTEGER, text TEXT);
INSERT INTO reviews VALUES (1,'FS-12','kelpfan',2,'Sticks in cold water, two of five.'),(2,'TG-15','harbourmaster',5,'Very exact, easy to calibrate.'),
 (3,'FS-12','sven-o',3,'Fine in summer. Support answered quickly.'),(4,'CB-10','reefdiver',4,'Good cable, a bit stiff.');
