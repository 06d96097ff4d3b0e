BEGIN TRANSACTION;
CREATE TABLE entries (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (thread, seq)
    );
INSERT INTO "entries" VALUES(1,1,'',1,1.79472069220968413353e+09,'{"step":0,"source":"input","next":["fill"],"format":1,"run":"r","values":{"log":{"=":["in"]},"tags":{"=":[]}}}');
INSERT INTO "entries" VALUES(1,2,'',1,1.79472069221155953407e+09,'{"step":1,"source":"loop","next":["sub",["work","plain",{"i":1}],["work","plain",{"i":2}]],"parent":1,"ran":{"fill":1},"values":{"when":{"=":"2024-02-29T12:00:00+00:00"},"colour":{"=":"red"},"points":{"=":[{"x":1,"y":0.5},{"x":2,"y":1.5}]},"steps":{"=":[{"kind":"thought","text":"a"},{"kind":"final_answer","text":"a"}]},"messages":{"=":[{"role":"user","content":"hi ü"}]},"thing":{"=":{"$dict":[["$odd",{"$tuple":[1,{"$bytes":"eA=="},{"$set":[1,2]}]}],["plain",[null,true,1.5]]]}},"log":{"+":[1,["fill"]]},"tags":{"+":[0,["t"]]}}}');
INSERT INTO "entries" VALUES(1,3,'2',1,1.79472069221715712547e+09,'{"task":"work#0","writes":[["log","typed",["work 1"]]]}');
INSERT INTO "entries" VALUES(1,4,'2',1,1.79472069221715712547e+09,'{"task":"work#1","writes":[["log","typed",["work 2"]]]}');
INSERT INTO "entries" VALUES(1,5,'2/sub/1',5,1.79472069221820855141e+09,'{"step":0,"source":"input","next":["x"],"format":1,"run":"r","values":{"log":{"=":["in","fill"]},"tags":{"=":["t"]},"when":{"=":"2024-02-29T12:00:00+00:00"},"colour":{"=":"red"},"points":{"=":[{"x":1,"y":0.5},{"x":2,"y":1.5}]},"steps":{"=":[{"kind":"thought","text":"a"},{"kind":"final_answer","text":"a"}]},"messages":{"=":[{"role":"user","content":"hi ü"}]},"thing":{"=":{"$dict":[["$odd",{"$tuple":[1,{"$bytes":"eA=="},{"$set":[1,2]}]}],["plain",[null,true,1.5]]]}}}}');
INSERT INTO "entries" VALUES(1,6,'2/sub/1',5,1.7947206922212395668e+09,'{"step":1,"source":"loop","next":["ask"],"parent":5,"ran":{"x":1},"values":{"log":{"+":[2,["x"]]}}}');
INSERT INTO "entries" VALUES(1,7,'2/sub/1/6',5,1.79472069222503209114e+09,'{"task":"ask","node":"ask","asked":["bc808fd20dfa691f",{"question":"?"},null],"event":0}');
INSERT INTO "entries" VALUES(2,1,'',1,1.79472069223065829277e+09,'{"step":0,"source":"input","next":["fill"],"format":1,"run":"r","values":{"log":{"=":["in"]},"tags":{"=":[]}}}');
INSERT INTO "entries" VALUES(2,2,'',1,1.79472069223181414604e+09,'{"step":1,"source":"loop","next":["sub",["work","plain",{"i":1}],["work","plain",{"i":2}]],"parent":1,"ran":{"fill":1},"values":{"when":{"=":"2024-02-29T12:00:00+00:00"},"colour":{"=":"red"},"points":{"=":[{"x":1,"y":0.5},{"x":2,"y":1.5}]},"steps":{"=":[{"kind":"thought","text":"a"},{"kind":"final_answer","text":"a"}]},"messages":{"=":[{"role":"user","content":"hi ü"}]},"thing":{"=":{"$dict":[["$odd",{"$tuple":[1,{"$bytes":"eA=="},{"$set":[1,2]}]}],["plain",[null,true,1.5]]]}},"log":{"+":[1,["fill"]]},"tags":{"+":[0,["t"]]}}}');
INSERT INTO "entries" VALUES(2,10,'',1,1.79472069225078606606e+09,'{"step":2,"source":"loop","next":["end"],"parent":2,"ran":{"sub":1,"work":2},"values":{"log":{"+":[2,["x","yes","work 1","work 2"]]}}}');
INSERT INTO "entries" VALUES(2,11,'',1,1.79472069225300073624e+09,'{"step":3,"source":"loop","next":[],"parent":10,"ran":{"end":1},"values":{"log":{"+":[6,["end"]]}}}');
CREATE TABLE threads (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
INSERT INTO "threads" VALUES(1,'waits',7,1.79472069222503209114e+09);
INSERT INTO "threads" VALUES(2,'ended',11,1.79472069225300073624e+09);
CREATE INDEX pending ON entries (thread, owner) WHERE owner <> '';
COMMIT;
PRAGMA application_id = 1465074503;
PRAGMA user_version = 1;
