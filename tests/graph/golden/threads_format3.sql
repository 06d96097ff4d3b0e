BEGIN TRANSACTION;
CREATE TABLE entries (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (thread, seq)
    );
INSERT INTO "entries" VALUES(1,1,'',1,1.79490224640411663052e+09,'{"step":0,"source":"input","next":["quick","way"],"format":3,"run":"r","values":{"log":{"=":["in"]}}}');
INSERT INTO "entries" VALUES(1,3,'',1,1.79490224642307019233e+09,'{"step":1,"source":"loop","next":["asks","sub",["work","plain",1]],"parent":1,"joins":[[["asks","quick"],"both",["quick"]]],"ran":{"quick":1,"way":1},"values":{"log":{"+":[1,["quick","way"]]}}}');
INSERT INTO "entries" VALUES(1,4,'3/sub/1',4,1.79490224642485356326e+09,'{"step":0,"source":"input","next":["x"],"format":3,"run":"r","wrote":[],"out":[],"values":{"log":{"=":["in","quick","way"]}}}');
INSERT INTO "entries" VALUES(1,5,'3',1,1.79490224643410468106e+09,'{"task":"work#0","writes":[["log","typed",["work 1"]],["either","typed","text"],["several","typed",["dict",{"a":1}]]]}');
INSERT INTO "entries" VALUES(1,6,'3/sub/1',4,1.79490224643502116206e+09,'{"step":1,"source":"loop","next":["ask"],"parent":4,"ran":{"x":1},"wrote":["log"],"out":[["log","typed",["x"]]],"values":{"log":{"+":[3,["x"]]}}}');
INSERT INTO "entries" VALUES(1,7,'3/sub/1/6',4,1.79490224644634652141e+09,'{"task":"ask","node":"ask","questions":[["5e26da2e31e81e36","0","inside",null]],"event":0}');
INSERT INTO "entries" VALUES(1,8,'3',1,1.79490224644676470752e+09,'{"task":"asks","node":"asks","questions":[["f73148d385201179","0","q0",null]],"event":0}');
INSERT INTO "entries" VALUES(2,1,'',1,1.79490224644825410848e+09,'{"step":0,"source":"input","next":["quick","way"],"format":3,"run":"r","values":{"log":{"=":["in"]}}}');
INSERT INTO "entries" VALUES(2,2,'',1,1.79490224644901227952e+09,'{"step":1,"source":"loop","next":["asks","sub",["work","plain",1]],"parent":1,"joins":[[["asks","quick"],"both",["quick"]]],"ran":{"quick":1,"way":1},"values":{"log":{"+":[1,["quick","way"]]}}}');
INSERT INTO "entries" VALUES(2,3,'2/sub/1',3,1.79490224644964146616e+09,'{"step":0,"source":"input","next":["x"],"format":3,"run":"r","wrote":[],"out":[],"values":{"log":{"=":["in","quick","way"]}}}');
INSERT INTO "entries" VALUES(2,4,'2',1,1794902246.45037,'{"task":"work#0","writes":[["log","typed",["work 1"]],["either","typed","text"],["several","typed",["dict",{"a":1}]]]}');
INSERT INTO "entries" VALUES(2,5,'2/sub/1',3,1.794902246454154253e+09,'{"step":1,"source":"loop","next":["ask"],"parent":3,"ran":{"x":1},"wrote":["log"],"out":[["log","typed",["x"]]],"values":{"log":{"+":[3,["x"]]}}}');
INSERT INTO "entries" VALUES(2,6,'2/sub/1/5',3,1.79490224645827889447e+09,'{"task":"ask","node":"ask","questions":[["0afdecba28084bfb","0","inside",null]],"event":0}');
INSERT INTO "entries" VALUES(2,7,'2',1,1.79490224645865201948e+09,'{"task":"asks","node":"asks","questions":[["9a54614bad9bbad9","0","q0",null]],"event":0}');
INSERT INTO "entries" VALUES(2,8,'2',1,1.79490224647105264658e+09,'{"task":"asks","answer":["0","a0",null]}');
INSERT INTO "entries" VALUES(2,9,'2',1,1.79490224647880864143e+09,'{"task":"asks","node":"asks","questions":[["e598bc3da2f76111","1","q1",null]],"event":0}');
INSERT INTO "entries" VALUES(2,10,'2',1,1.79490224648305845265e+09,'{"task":"asks","answer":["1","a1",null]}');
INSERT INTO "entries" VALUES(2,11,'2',1,1.79490224648671197892e+09,'{"task":"asks","node":"asks","questions":[["025eccd33b410d84","2","q2",null]],"event":0}');
CREATE TABLE parts (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        hash TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (thread, hash)
    );
CREATE TABLE threads (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
INSERT INTO "threads" VALUES(1,'fresh',8,1.79490224644676470752e+09);
INSERT INTO "threads" VALUES(2,'half',11,1.79490224648671197892e+09);
CREATE INDEX pending ON entries (thread, owner) WHERE owner <> '';
COMMIT;
PRAGMA application_id = 1465074503;
PRAGMA user_version = 2;
