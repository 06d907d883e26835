CREATE TABLE guests (id INTEGER PRIMARY KEY, name TEXT, email TEXT, phone TEXT, remark TEXT);
CREATE TABLE bunks (code TEXT PRIMARY KEY, room INTEGER, level TEXT);
CREATE TABLE stays (id INTEGER PRIMARY KEY, guest_id INTEGER, bunk TEXT, arrive TEXT, leave TEXT, price REAL);
INSERT INTO guests VALUES (1,'Ida Sørensen','ida.s@nordpost.example','+45 5550 1144','allergic to feathers'),(2,'Hollis Walking Club','secretary@hollis-walkers.example',NULL,'please always confirm by phone'),(3,'Kenji Mori','kenji.mori@mail.example',NULL,NULL),(4,'Amira Boulos','amira@boulos.example',NULL,'late arrival');
INSERT INTO bunks VALUES ('1A',1,'lower'),('1B',1,'upper'),('2A',2,'lower'),('2B',2,'upper'),('3A',3,'lower'),('3B',3,'upper'),('4A',4,'lower'),('4B',4,'upper');
INSERT INTO stays VALUES (1,2,'1A','2026-12-04','2026-12-06',56),(2,2,'1B','2026-12-04','2026-12-06',52),(3,2,'2A','2026-12-04','2026-12-06',56),(4,2,'2B','2026-12-04','2026-12-06',52),(5,2,'4A','2026-12-04','2026-12-06',56),(6,2,'4B','2026-12-04','2026-12-06',52),(7,3,'3B','2026-11-27','2026-11-29',52),(8,4,'3A','2026-10-02','2026-10-05',84),(9,4,'3A','2026-11-20','2026-11-22',56),(10,3,'1A','2026-10-12','2026-10-13',28);
