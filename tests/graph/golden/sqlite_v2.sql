BEGIN TRANSACTION;
CREATE TABLE entries (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (thread, seq)
    );
INSERT INTO "entries" VALUES(1,1,'',1,1.79478621035689473152e+09,'{"step":0,"source":"input","next":["fill"],"format":2,"run":"r","values":{"log":{"=":["in"]},"tags":{"=":[]}}}');
INSERT INTO "entries" VALUES(1,2,'',1,1.79478621038068842888e+09,'{"step":1,"source":"loop","next":["sub",["work","plain",{"i":1}],["work","plain",{"i":2}]],"parent":1,"ran":{"fill":1},"values":{"colour":{"=":"red"},"log":{"+":[1,["fill"]]},"messages":{"=":[{"role":"user","content":"hi ü"}]},"points":{"=":[{"x":1,"y":0.5},{"x":2,"y":1.5}]},"steps":{"=":[{"kind":"thought","text":"a"},{"kind":"final_answer","text":"a"}]},"tags":{"+":[0,["t"]]},"thing":{"=":{"$dict":[["$odd",{"$tuple":[1,{"$bytes":"eA=="},{"$set":[1,2]}]}],["plain",[null,true,1.5]]]}},"when":{"=":"2024-02-29T12:00:00+00:00"}}}');
INSERT INTO "entries" VALUES(1,3,'2/sub/1',3,1.79478621038866519928e+09,'{"step":0,"source":"input","next":["x"],"format":2,"run":"r","wrote":[],"out":[],"values":{"log":{"=":["in","fill"]},"tags":{"=":["t"]},"colour":{"=":"red"},"messages":{"=":[{"role":"user","content":"hi ü"}]},"points":{"=":[{"x":1,"y":0.5},{"x":2,"y":1.5}]},"steps":{"=":[{"kind":"thought","text":"a"},{"kind":"final_answer","text":"a"}]},"thing":{"=":{"$dict":[["$odd",{"$tuple":[1,{"$bytes":"eA=="},{"$set":[1,2]}]}],["plain",[null,true,1.5]]]}},"when":{"=":"2024-02-29T12:00:00+00:00"}}}');
INSERT INTO "entries" VALUES(1,4,'2',1,1.79478621039524769783e+09,'{"task":"work#0","writes":[["log","typed",["work 1"]]]}');
INSERT INTO "entries" VALUES(1,5,'2',1,1.79478621039524769783e+09,'{"task":"work#1","writes":[["log","typed",["work 2"]]]}');
INSERT INTO "entries" VALUES(1,6,'2/sub/1',3,1.79478621039581394196e+09,'{"step":1,"source":"loop","next":["ask"],"parent":3,"ran":{"x":1},"wrote":["log"],"out":[],"values":{"log":{"+":[2,["x"]]}}}');
INSERT INTO "entries" VALUES(1,7,'2/sub/1/6',3,1.79478621040029978752e+09,'{"task":"ask","node":"ask","questions":[["0afdecba28084bfb","0",{"question":"?"},null]],"event":0}');
INSERT INTO "entries" VALUES(2,1,'',1,1.7947862104194188118e+09,'{"step":0,"source":"input","next":["fill"],"format":2,"run":"r","values":{"log":{"=":["in"]},"tags":{"=":[]}}}');
INSERT INTO "entries" VALUES(2,2,'',1,1.79478621042081928253e+09,'{"step":1,"source":"loop","next":["sub",["work","plain",{"i":1}],["work","plain",{"i":2}]],"parent":1,"ran":{"fill":1},"values":{"colour":{"=":"red"},"log":{"+":[1,["fill"]]},"messages":{"=":[{"role":"user","content":"hi ü"}]},"points":{"=":[{"x":1,"y":0.5},{"x":2,"y":1.5}]},"steps":{"=":[{"kind":"thought","text":"a"},{"kind":"final_answer","text":"a"}]},"tags":{"+":[0,["t"]]},"thing":{"=":{"$dict":[["$odd",{"$tuple":[1,{"$bytes":"eA=="},{"$set":[1,2]}]}],["plain",[null,true,1.5]]]}},"when":{"=":"2024-02-29T12:00:00+00:00"}}}');
INSERT INTO "entries" VALUES(2,10,'',1,1.79478621046893405914e+09,'{"step":2,"source":"loop","next":["end"],"parent":2,"ran":{"sub":1,"work":2},"values":{"log":{"+":[2,["x","yes","work 1","work 2"]]}}}');
INSERT INTO "entries" VALUES(2,11,'',1,1.79478621048618912697e+09,'{"step":3,"source":"loop","next":[],"parent":10,"ran":{"end":1},"values":{"log":{"+":[6,["end"]]}}}');
CREATE TABLE parts (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        hash TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (thread, hash)
    );
CREATE TABLE threads (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
INSERT INTO "threads" VALUES(1,'waits',7,1.79478621040029978752e+09);
INSERT INTO "threads" VALUES(2,'ended',11,1.79478621048618912697e+09);
CREATE INDEX pending ON entries (thread, owner) WHERE owner <> '';
COMMIT;
PRAGMA application_id = 1465074503;
PRAGMA user_version = 2;
