BEGIN TRANSACTION;
CREATE TABLE entries (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (thread, seq)
    );
INSERT INTO "entries" VALUES(1,1,'',1,1.79476632362196731567e+09,'{"step":0,"source":"input","next":["quick","way"],"format":1,"run":"r","values":{"log":{"=":["in"]}}}');
INSERT INTO "entries" VALUES(1,2,'',1,1.79476632362731695175e+09,'{"step":1,"source":"loop","next":["asks","sub",["work","plain",1]],"parent":1,"ran":{"quick":1,"way":1},"joins":{"0":["quick"]},"values":{"log":{"+":[1,["quick","way"]]}}}');
INSERT INTO "entries" VALUES(1,3,'2',1,1.7947663236317076683e+09,'{"task":"work#0","writes":[["log","typed",["work 1"]],["either","typed",["str","text"]],["several","typed",["dict",{"a":1}]]]}');
INSERT INTO "entries" VALUES(1,4,'2/sub/1',4,1.7947663236320309639e+09,'{"step":0,"source":"input","next":["x"],"format":1,"run":"r","values":{"log":{"=":["in","quick","way"]}}}');
INSERT INTO "entries" VALUES(1,5,'2/sub/1',4,1.79476632363540244102e+09,'{"step":1,"source":"loop","next":["ask"],"parent":4,"ran":{"x":1},"values":{"log":{"+":[3,["x"]]}}}');
INSERT INTO "entries" VALUES(1,6,'2/sub/1/5',4,1.79476632363596367836e+09,'{"task":"ask","node":"ask","asked":["caa848339d28a86b","inside",null],"event":0}');
INSERT INTO "entries" VALUES(1,7,'2',1,1.79476632363859224319e+09,'{"task":"asks","node":"asks","asked":["9a54614bad9bbad9","q0",null],"event":0}');
INSERT INTO "entries" VALUES(2,1,'',1,1.7947663236394367218e+09,'{"step":0,"source":"input","next":["quick","way"],"format":1,"run":"r","values":{"log":{"=":["in"]}}}');
INSERT INTO "entries" VALUES(2,2,'',1,1.79476632364004683495e+09,'{"step":1,"source":"loop","next":["asks","sub",["work","plain",1]],"parent":1,"ran":{"quick":1,"way":1},"joins":{"0":["quick"]},"values":{"log":{"+":[1,["quick","way"]]}}}');
INSERT INTO "entries" VALUES(2,3,'2',1,1.79476632364062452316e+09,'{"task":"work#0","writes":[["log","typed",["work 1"]],["either","typed",["str","text"]],["several","typed",["dict",{"a":1}]]]}');
INSERT INTO "entries" VALUES(2,4,'2/sub/1',4,1.79476632364105153084e+09,'{"step":0,"source":"input","next":["x"],"format":1,"run":"r","values":{"log":{"=":["in","quick","way"]}}}');
INSERT INTO "entries" VALUES(2,5,'2/sub/1',4,1.79476632364573717117e+09,'{"step":1,"source":"loop","next":["ask"],"parent":4,"ran":{"x":1},"values":{"log":{"+":[3,["x"]]}}}');
INSERT INTO "entries" VALUES(2,6,'2/sub/1/5',4,1.79476632364624047279e+09,'{"task":"ask","node":"ask","asked":["caa848339d28a86b","inside",null],"event":0}');
INSERT INTO "entries" VALUES(2,7,'2',1,1.79476632364668560028e+09,'{"task":"asks","node":"asks","asked":["9a54614bad9bbad9","q0",null],"event":0}');
INSERT INTO "entries" VALUES(2,8,'2',1,1.79476632364869213104e+09,'{"task":"asks","answers":[["a0",null]]}');
INSERT INTO "entries" VALUES(2,9,'2',1,1.79476632366135787964e+09,'{"task":"asks","node":"asks","asked":["e598bc3da2f76111","q1",null],"event":0}');
INSERT INTO "entries" VALUES(2,10,'2',1,1.79476632366745066643e+09,'{"task":"asks","answers":[["a0",null],["a1",null]]}');
INSERT INTO "entries" VALUES(2,11,'2',1,1.79476632366799616814e+09,'{"task":"asks","node":"asks","asked":["025eccd33b410d84","q2",null],"event":0}');
CREATE TABLE threads (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
INSERT INTO "threads" VALUES(1,'fresh',7,1.79476632363859224319e+09);
INSERT INTO "threads" VALUES(2,'half',11,1.79476632366799616814e+09);
CREATE INDEX pending ON entries (thread, owner) WHERE owner <> '';
COMMIT;
PRAGMA application_id = 1465074503;
PRAGMA user_version = 1;
