BEGIN TRANSACTION;
CREATE TABLE application_versions (
    version_id TEXT NOT NULL PRIMARY KEY,
    version_name TEXT NOT NULL UNIQUE,
    version_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL);
INSERT INTO "application_versions" VALUES('99e28e21-3071-4736-af51-e626fd24da9c','1',1794900625000,1794900625000,'wesichain');
CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO "dbos_migrations" VALUES(123);
CREATE TABLE notifications (
    message_uuid TEXT NOT NULL DEFAULT (hex(randomblob(16))) PRIMARY KEY,
    destination_uuid TEXT NOT NULL,
    topic TEXT,
    message TEXT NOT NULL,
    created_at_epoch_ms INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000), "serialization" TEXT DEFAULT NULL, "consumed" BOOLEAN NOT NULL DEFAULT FALSE, consumed_by_function_id INTEGER,
    FOREIGN KEY (destination_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE "operation_outputs" (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    function_name TEXT NOT NULL DEFAULT '',
    output TEXT,
    error TEXT,
    child_workflow_id TEXT,
    started_at_epoch_ms INTEGER,
    completed_at_epoch_ms INTEGER,
    serialization TEXT,
    application_name TEXT DEFAULT NULL,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    PRIMARY KEY (workflow_uuid, function_id)
);
INSERT INTO "operation_outputs" VALUES('finished',1,'begin dc0f2d27a07e','{"asked":"31923e5f34eff1a785008c73d3ccf4610ca596a355b13139ff7c4bd0916b2324","at":1794900625.1296887,"elapsed":0.001162220999958663,"entry":{"value":["Be brief.",{"text":"","shown":[],"held":[],"trouble":"","tools":[]}]},"by":"dc0f2d27a07e"}',NULL,NULL,1794900625128,1794900625130,'portable_json','wesichain',1794900625130);
INSERT INTO "operation_outputs" VALUES('finished',2,'ask 1','{"asked":"2cee4369c35596c56360e133b86464ff9be1bc7fa87bd575d39228a9a6993ed8","at":1794900625.1379929,"elapsed":0.002198082999939288,"entry":{"reply":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"look","args":{"at":"look"}}]}},"by":"dc0f2d27a07e","told":[{"kind":"run_started","run_id":"finished","step_id":0,"seq":1,"at":1794900625.1296887,"user_input":"look","model":"function","tools":[{"name":"look","description":"Look somewhere.","parameters":{"additionalProperties":false,"properties":{"at":{"type":"string"}},"required":["at"],"type":"object"}},{"name":"send","description":"Send a message.","parameters":{"additionalProperties":false,"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}]},{"kind":"step_started","run_id":"finished","step_id":1,"seq":2,"at":1794900625.1296887,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"look"}]}]}',NULL,NULL,1794900625136,1794900625138,'portable_json','wesichain',1794900625138);
INSERT INTO "operation_outputs" VALUES('finished',3,'call 1 c0 1','{"asked":"b921a278cdd56d303f8beab14c1edf3fa7499e7d1674f09bfd746f33f18cd9f6","at":1794900625.1446457,"elapsed":0.004818438999905084,"entry":{"value":"grün at look","duration_ms":2.5532259999181406},"by":"dc0f2d27a07e","told":[{"kind":"model_responded","run_id":"finished","step_id":1,"seq":3,"at":1794900625.1379929,"response":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"look","args":{"at":"look"}}]},"duration_ms":1.035},{"kind":"tool_dispatched","run_id":"finished","step_id":1,"seq":4,"at":1794900625.1379929,"call":{"id":"c0","name":"look","args":{"at":"look"}}}]}',NULL,NULL,1794900625142,1794900625144,'portable_json','wesichain',1794900625144);
INSERT INTO "operation_outputs" VALUES('finished',4,'ask 2','{"asked":"30e6a6161f79192c8b39ad6b22f7467c29feaea4958b7ec5b0500a4d7f8e5e86","at":1794900625.148145,"elapsed":0.004916633999869191,"entry":{"reply":{"content":"Done with look.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"stop"}},"by":"dc0f2d27a07e","told":[{"kind":"tool_completed","run_id":"finished","step_id":1,"seq":5,"at":1794900625.1446457,"call_id":"c0","tool_name":"look","value":"grün at look","duration_ms":2.5532259999181406},{"kind":"step_started","run_id":"finished","step_id":2,"seq":6,"at":1794900625.1446457,"follows":true}]}',NULL,NULL,1794900625148,1794900625148,'portable_json','wesichain',1794900625148);
INSERT INTO "operation_outputs" VALUES('failed',1,'begin dc0f2d27a07e','{"asked":"a89dec98517202c4b8d720e2ccca69fd5f73996dc4ea401d81c140ace8aad8cb","at":1794900625.2034998,"elapsed":8.947399999215122e-05,"entry":{"value":["Be brief.",{"text":"","shown":[],"held":[],"trouble":"","tools":[]}]},"by":"dc0f2d27a07e"}',NULL,NULL,1794900625203,1794900625203,'portable_json','wesichain',1794900625203);
INSERT INTO "operation_outputs" VALUES('failed',2,'ask 1','{"asked":"e7d50a2f50eaee8b1a7f875d39930faa4ef3f0405e6efd41a7c4dbc5c677bdbd","at":1794900625.2053595,"elapsed":0.0002508510000325259,"entry":{"raised":{"error":"LlmRejectedError","message":"no more of this"}},"by":"dc0f2d27a07e","told":[{"kind":"run_started","run_id":"failed","step_id":0,"seq":1,"at":1794900625.2034998,"user_input":"fail","model":"function","tools":[{"name":"look","description":"Look somewhere.","parameters":{"additionalProperties":false,"properties":{"at":{"type":"string"}},"required":["at"],"type":"object"}},{"name":"send","description":"Send a message.","parameters":{"additionalProperties":false,"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}]},{"kind":"step_started","run_id":"failed","step_id":1,"seq":2,"at":1794900625.2034998,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"fail"}]}]}',NULL,NULL,1794900625205,1794900625205,'portable_json','wesichain',1794900625205);
INSERT INTO "operation_outputs" VALUES('waiting',1,'begin dc0f2d27a07e','{"asked":"3dbdb886e9e4e44df71bfd61ab582d81a8016c3a55d84a6c766ceccc016e0a1b","at":1794900625.2462952,"elapsed":7.090700000844663e-05,"entry":{"value":["Be brief.",{"text":"","shown":[],"held":[],"trouble":"","tools":[]}]},"by":"dc0f2d27a07e"}',NULL,NULL,1794900625246,1794900625246,'portable_json','wesichain',1794900625246);
INSERT INTO "operation_outputs" VALUES('waiting',2,'ask 1','{"asked":"a05b565b50085e130c7e2647bb02e60ec5e0c5490f7686d0616e549d8d40ad1f","at":1794900625.2481341,"elapsed":0.00017490300001554715,"entry":{"reply":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"send","args":{"to":"Ada"}}]}},"by":"dc0f2d27a07e","told":[{"kind":"run_started","run_id":"waiting","step_id":0,"seq":1,"at":1794900625.2462952,"user_input":"send","model":"function","tools":[{"name":"look","description":"Look somewhere.","parameters":{"additionalProperties":false,"properties":{"at":{"type":"string"}},"required":["at"],"type":"object"}},{"name":"send","description":"Send a message.","parameters":{"additionalProperties":false,"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}]},{"kind":"step_started","run_id":"waiting","step_id":1,"seq":2,"at":1794900625.2462952,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"send"}]}]}',NULL,NULL,1794900625248,1794900625248,'portable_json','wesichain',1794900625247);
INSERT INTO "operation_outputs" VALUES('approved',1,'begin dc0f2d27a07e','{"asked":"3dbdb886e9e4e44df71bfd61ab582d81a8016c3a55d84a6c766ceccc016e0a1b","at":1794900625.288527,"elapsed":8.18769999568758e-05,"entry":{"value":["Be brief.",{"text":"","shown":[],"held":[],"trouble":"","tools":[]}]},"by":"dc0f2d27a07e"}',NULL,NULL,1794900625288,1794900625288,'portable_json','wesichain',1794900625288);
INSERT INTO "operation_outputs" VALUES('approved',2,'ask 1','{"asked":"a05b565b50085e130c7e2647bb02e60ec5e0c5490f7686d0616e549d8d40ad1f","at":1794900625.2918391,"elapsed":0.0002004939999551425,"entry":{"reply":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"send","args":{"to":"Ada"}}]}},"by":"dc0f2d27a07e","told":[{"kind":"run_started","run_id":"approved","step_id":0,"seq":1,"at":1794900625.288527,"user_input":"send","model":"function","tools":[{"name":"look","description":"Look somewhere.","parameters":{"additionalProperties":false,"properties":{"at":{"type":"string"}},"required":["at"],"type":"object"}},{"name":"send","description":"Send a message.","parameters":{"additionalProperties":false,"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}]},{"kind":"step_started","run_id":"approved","step_id":1,"seq":2,"at":1794900625.288527,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"send"}]}]}',NULL,NULL,1794900625291,1794900625291,'portable_json','wesichain',1794900625291);
INSERT INTO "operation_outputs" VALUES('cancelled',1,'begin dc0f2d27a07e','{"asked":"3dbdb886e9e4e44df71bfd61ab582d81a8016c3a55d84a6c766ceccc016e0a1b","at":1794900625.3068118,"elapsed":5.06730000324751e-05,"entry":{"value":["Be brief.",{"text":"","shown":[],"held":[],"trouble":"","tools":[]}]},"by":"dc0f2d27a07e"}',NULL,NULL,1794900625306,1794900625306,'portable_json','wesichain',1794900625307);
INSERT INTO "operation_outputs" VALUES('cancelled',2,'ask 1','{"asked":"a05b565b50085e130c7e2647bb02e60ec5e0c5490f7686d0616e549d8d40ad1f","at":1794900625.3081093,"elapsed":0.0001269919999913327,"entry":{"reply":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"send","args":{"to":"Ada"}}]}},"by":"dc0f2d27a07e","told":[{"kind":"run_started","run_id":"cancelled","step_id":0,"seq":1,"at":1794900625.3068118,"user_input":"send","model":"function","tools":[{"name":"look","description":"Look somewhere.","parameters":{"additionalProperties":false,"properties":{"at":{"type":"string"}},"required":["at"],"type":"object"}},{"name":"send","description":"Send a message.","parameters":{"additionalProperties":false,"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}]},{"kind":"step_started","run_id":"cancelled","step_id":1,"seq":2,"at":1794900625.3068118,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"send"}]}]}',NULL,NULL,1794900625308,1794900625308,'portable_json','wesichain',1794900625308);
INSERT INTO "operation_outputs" VALUES('interrupted',1,'begin dc0f2d27a07e','{"asked":"be1ceb928387eff135352f4a8b240abfa89a4eeffd4995bfbcdcc988e02cf69e","at":1794900625.7845688,"elapsed":0.0011699730000600539,"entry":{"value":["Be brief.",{"text":"","shown":[],"held":[],"trouble":"","tools":[]}]},"by":"dc0f2d27a07e"}',NULL,NULL,1794900625783,1794900625785,'portable_json','wesichain',1794900625786);
INSERT INTO "operation_outputs" VALUES('interrupted',2,'ask 1','{"asked":"c8b3fc1b44c3ca0e211f40f7e42f5693092406cfa45a1bf567413378d298e1f0","at":1794900625.793896,"elapsed":0.002351359000044795,"entry":{"reply":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"look","args":{"at":"die"}}]}},"by":"dc0f2d27a07e","told":[{"kind":"run_started","run_id":"interrupted","step_id":0,"seq":1,"at":1794900625.7845688,"user_input":"die","model":"function","tools":[{"name":"look","description":"Look somewhere.","parameters":{"additionalProperties":false,"properties":{"at":{"type":"string"}},"required":["at"],"type":"object"}},{"name":"send","description":"Send a message.","parameters":{"additionalProperties":false,"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}]},{"kind":"step_started","run_id":"interrupted","step_id":1,"seq":2,"at":1794900625.7845688,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"die"}]}]}',NULL,NULL,1794900625792,1794900625794,'portable_json','wesichain',1794900625794);
INSERT INTO "operation_outputs" VALUES('interrupted',3,'call 1 c0 1','{"asked":"fb2b36fd8b503e27a41348cf6cb9a4c4cb89deefbf8e83b7cedb557e39230988","at":1794900625.801113,"elapsed":0.00540763100013919,"entry":{"value":"grün at die","duration_ms":2.9713800000763513},"by":"dc0f2d27a07e","told":[{"kind":"model_responded","run_id":"interrupted","step_id":1,"seq":3,"at":1794900625.793896,"response":{"content":"Step 0.","usage":{"input_tokens":100,"output_tokens":7},"finish_reason":"tool_calls","tool_calls":[{"id":"c0","name":"look","args":{"at":"die"}}]},"duration_ms":1.181},{"kind":"tool_dispatched","run_id":"interrupted","step_id":1,"seq":4,"at":1794900625.793896,"call":{"id":"c0","name":"look","args":{"at":"die"}}}]}',NULL,NULL,1794900625798,1794900625801,'portable_json','wesichain',1794900625801);
CREATE TABLE queues (
    queue_id TEXT PRIMARY KEY DEFAULT (hex(randomblob(16))),
    name TEXT NOT NULL UNIQUE,
    concurrency INTEGER,
    worker_concurrency INTEGER,
    rate_limit_max INTEGER,
    rate_limit_period_sec REAL,
    priority_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    partition_queue BOOLEAN NOT NULL DEFAULT FALSE,
    polling_interval_sec REAL NOT NULL DEFAULT 1.0,
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    updated_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL, "partition_concurrency" INTEGER DEFAULT NULL, "partition_worker_concurrency" INTEGER DEFAULT NULL, "partition_rate_limit_max" INTEGER DEFAULT NULL, "partition_rate_limit_period_sec" REAL DEFAULT NULL);
CREATE TABLE streams (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL, function_id INTEGER NOT NULL DEFAULT 0, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key, "offset"),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE wesichain_children (
        run TEXT NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL UNIQUE, parent TEXT NOT NULL,
        agent TEXT NOT NULL, outcome TEXT NOT NULL, error TEXT, created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL, PRIMARY KEY (run, scope)
    );
CREATE TABLE wesichain_decisions (
        run TEXT NOT NULL, token TEXT NOT NULL, decision TEXT NOT NULL, PRIMARY KEY (run, token)
    );
INSERT INTO "wesichain_decisions" VALUES('approved','2d05102735c4680484765dd596c2963e','{"kind":"approve"}');
CREATE TABLE wesichain_leases (
        executor TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, beat BIGINT NOT NULL
    );
INSERT INTO "wesichain_leases" VALUES('vm-12233-b330cccf','vm 47d23b69-2d06-477e-8f6f-b0aee8cbf66c pid:[4026531836]',12233,0);
CREATE TABLE wesichain_runs (
        run TEXT PRIMARY KEY, agent TEXT NOT NULL, asked TEXT NOT NULL, stretch BIGINT NOT NULL,
        current TEXT NOT NULL, outcome TEXT NOT NULL, cancelled BIGINT NOT NULL, ending TEXT,
        created_at BIGINT NOT NULL
    );
INSERT INTO "wesichain_runs" VALUES('finished','golden','75efd0418e9b30c1fa5b4a85cf2725bed8ea6a232a573ffc8a6c46d597127e21',0,'finished','completed',0,NULL,1794900625104);
INSERT INTO "wesichain_runs" VALUES('failed','golden','1f8287732b82ecd3831e2e3d207d7b2c8decca4d8060e6d985658c79803b2e2c',0,'failed','failed',0,NULL,1794900625194);
INSERT INTO "wesichain_runs" VALUES('waiting','golden','519598bc23c83b0b44133d82a569c3bcd62aa8bf217f51275f089c7b25685e77',0,'waiting','interrupted',0,NULL,1794900625238);
INSERT INTO "wesichain_runs" VALUES('approved','golden','519598bc23c83b0b44133d82a569c3bcd62aa8bf217f51275f089c7b25685e77',1,'approved/1','',0,NULL,1794900625281);
INSERT INTO "wesichain_runs" VALUES('cancelled','golden','519598bc23c83b0b44133d82a569c3bcd62aa8bf217f51275f089c7b25685e77',0,'cancelled','interrupted',1,NULL,1794900625300);
INSERT INTO "wesichain_runs" VALUES('interrupted','golden','dcda563f70fa0ed9ca93947be45e61421aec21616b8d070a49340f4e343ae326',0,'interrupted','',0,NULL,1794900625758);
INSERT INTO "wesichain_runs" VALUES('queued','golden','75efd0418e9b30c1fa5b4a85cf2725bed8ea6a232a573ffc8a6c46d597127e21',0,'queued','',0,NULL,1794900625971);
CREATE TABLE wesichain_serving (
        executor TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL, max_recoveries BIGINT NOT NULL,
        PRIMARY KEY (executor, agent, version)
    );
INSERT INTO "wesichain_serving" VALUES('vm-12233-b330cccf','golden','dc0f2d27a07e',5);
CREATE TABLE wesichain_suspects (
        id TEXT PRIMARY KEY, recoveries BIGINT NOT NULL, watched TEXT NOT NULL
    );
CREATE TABLE wesichain_versions (
        agent TEXT NOT NULL, version TEXT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (agent, version)
    );
INSERT INTO "wesichain_versions" VALUES('golden','dc0f2d27a07e',1);
CREATE TABLE workflow_events (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_events_history (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, function_id, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_input (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    inputs TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
INSERT INTO "workflow_input" VALUES('finished','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"look\"}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('failed','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"fail\"}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('waiting','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"send\"}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('approved','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"send\"}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('cancelled','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"send\"}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('interrupted','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"die\"}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('approved/1','{"namedArgs":{},"positionalArgs":["{\"kind\":\"resume_run\",\"decisions\":{\"2d05102735c4680484765dd596c2963e\":{\"kind\":\"approve\"}},\"at\":1794900625.9637456}"]}',1794900625000);
INSERT INTO "workflow_input" VALUES('queued','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"look\"}"]}',1794900625000);
CREATE TABLE workflow_output (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    output TEXT,
    error TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
INSERT INTO "workflow_output" VALUES('finished','"{\"outcome\":{\"kind\":\"completed\",\"run_id\":\"finished\",\"task\":\"look\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":8,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"look\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}]},{\"role\":\"tool\",\"content\":\"grün at look\",\"tool_call_id\":\"c0\"},{\"role\":\"assistant\",\"content\":\"Done with look.\"}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}},{\"kind\":\"observation\",\"value\":\"grün at look\",\"call_id\":\"c0\"},{\"kind\":\"final_answer\",\"text\":\"Done with look.\"}],\"spent\":{\"steps\":2,\"usage\":{\"input_tokens\":200,\"output_tokens\":14},\"tool_calls\":1,\"free_retries\":0,\"seconds\":0.003754},\"step\":2,\"agent\":\"agent\",\"opened_by\":\"\",\"text\":\"Done with look.\",\"stopped_by\":null},\"events\":[{\"kind\":\"model_responded\",\"run_id\":\"finished\",\"step_id\":2,\"seq\":7,\"at\":1794900625.148145,\"response\":{\"content\":\"Done with look.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"stop\"},\"duration_ms\":0.098},{\"kind\":\"run_completed\",\"run_id\":\"finished\",\"step_id\":2,\"seq\":8,\"at\":1794900625.148145,\"output\":\"Done with look.\",\"usage\":{\"input_tokens\":200,\"output_tokens\":14},\"seconds\":0.003754}]}"',NULL,1794900625000);
INSERT INTO "workflow_output" VALUES('failed','"{\"outcome\":{\"kind\":\"failed\",\"run_id\":\"failed\",\"task\":\"fail\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"fail\"}],\"steps\":[{\"kind\":\"error\",\"message\":\"the model could not be asked: no more of this\"}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":0,\"output_tokens\":0},\"tool_calls\":0,\"free_retries\":0,\"seconds\":0.000161},\"step\":1,\"agent\":\"agent\",\"opened_by\":\"\",\"error\":\"ModelTransportError\",\"message\":\"the model could not be asked: no more of this\",\"fields\":{\"step_id\":1}},\"events\":[{\"kind\":\"step_failed\",\"run_id\":\"failed\",\"step_id\":1,\"seq\":3,\"at\":1794900625.2053595,\"error\":\"LlmRejectedError\",\"message\":\"the model could not be asked: no more of this\",\"decision\":\"fail\"},{\"kind\":\"run_failed\",\"run_id\":\"failed\",\"step_id\":1,\"seq\":4,\"at\":1794900625.2053595,\"error\":\"ModelTransportError\",\"message\":\"the model could not be asked: no more of this\",\"usage\":{\"input_tokens\":0,\"output_tokens\":0},\"seconds\":0.000161}]}"',NULL,1794900625000);
INSERT INTO "workflow_output" VALUES('waiting','"{\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"waiting\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0,\"seconds\":0.000104},\"step\":1,\"agent\":\"agent\",\"opened_by\":\"\",\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"8dba670772bf9cded5adf5987dec242d\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[],\"attempts\":{},\"decisions\":{}},\"tally\":{\"faults\":null,\"row\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":null,\"last_result\":\"\",\"repeats\":0,\"free\":false,\"limit\":null},\"told\":2},\"events\":[{\"kind\":\"model_responded\",\"run_id\":\"waiting\",\"step_id\":1,\"seq\":3,\"at\":1794900625.2481341,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"duration_ms\":0.103},{\"kind\":\"run_interrupted\",\"run_id\":\"waiting\",\"step_id\":1,\"seq\":4,\"at\":1794900625.2481341,\"reason\":\"approval\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"8dba670772bf9cded5adf5987dec242d\"}],\"seconds\":0.000104}]}"',NULL,1794900625000);
INSERT INTO "workflow_output" VALUES('approved','"{\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"approved\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0,\"seconds\":0.000119},\"step\":1,\"agent\":\"agent\",\"opened_by\":\"\",\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"2d05102735c4680484765dd596c2963e\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[],\"attempts\":{},\"decisions\":{}},\"tally\":{\"faults\":null,\"row\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":null,\"last_result\":\"\",\"repeats\":0,\"free\":false,\"limit\":null},\"told\":2},\"events\":[{\"kind\":\"model_responded\",\"run_id\":\"approved\",\"step_id\":1,\"seq\":3,\"at\":1794900625.2918391,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"duration_ms\":0.118},{\"kind\":\"run_interrupted\",\"run_id\":\"approved\",\"step_id\":1,\"seq\":4,\"at\":1794900625.2918391,\"reason\":\"approval\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"2d05102735c4680484765dd596c2963e\"}],\"seconds\":0.000119}]}"',NULL,1794900625000);
INSERT INTO "workflow_output" VALUES('cancelled','"{\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"cancelled\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0,\"seconds\":7.6e-05},\"step\":1,\"agent\":\"agent\",\"opened_by\":\"\",\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"5fb22fe2034bce0b1f96e00c56f10ef5\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[],\"attempts\":{},\"decisions\":{}},\"tally\":{\"faults\":null,\"row\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":null,\"last_result\":\"\",\"repeats\":0,\"free\":false,\"limit\":null},\"told\":2},\"events\":[{\"kind\":\"model_responded\",\"run_id\":\"cancelled\",\"step_id\":1,\"seq\":3,\"at\":1794900625.3081093,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"duration_ms\":0.076},{\"kind\":\"run_interrupted\",\"run_id\":\"cancelled\",\"step_id\":1,\"seq\":4,\"at\":1794900625.3081093,\"reason\":\"approval\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"5fb22fe2034bce0b1f96e00c56f10ef5\"}],\"seconds\":7.6e-05}]}"',NULL,1794900625000);
CREATE TABLE workflow_schedules (
    schedule_id TEXT PRIMARY KEY,
    schedule_name TEXT NOT NULL UNIQUE,
    workflow_name TEXT NOT NULL,
    workflow_class_name TEXT,
    schedule TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'ACTIVE',
    context TEXT NOT NULL
, "last_fired_at" TEXT DEFAULT NULL, "automatic_backfill" BOOLEAN NOT NULL DEFAULT FALSE, "cron_timezone" TEXT DEFAULT NULL, "queue_name" TEXT DEFAULT NULL, "application_name" TEXT DEFAULT NULL);
CREATE TABLE workflow_status (
    workflow_uuid TEXT PRIMARY KEY,
    status TEXT,
    name TEXT,
    authenticated_user TEXT,
    assumed_role TEXT,
    authenticated_roles TEXT,
    request TEXT,
    output TEXT,
    error TEXT,
    executor_id TEXT,
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    updated_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    application_version TEXT,
    application_id TEXT,
    class_name TEXT DEFAULT NULL,
    config_name TEXT DEFAULT NULL,
    recovery_attempts INTEGER DEFAULT 0,
    queue_name TEXT,
    workflow_timeout_ms INTEGER,
    workflow_deadline_epoch_ms INTEGER,
    inputs TEXT,
    started_at_epoch_ms INTEGER,
    deduplication_id TEXT,
    priority INTEGER NOT NULL DEFAULT 0
, queue_partition_key TEXT, forked_from TEXT, "owner_xid" TEXT DEFAULT NULL, "parent_workflow_id" TEXT DEFAULT NULL, "serialization" TEXT DEFAULT NULL, "delay_until_epoch_ms" BIGINT DEFAULT NULL, "was_forked_from" BOOLEAN NOT NULL DEFAULT FALSE, "rate_limited" BOOLEAN NOT NULL DEFAULT FALSE, "completed_at" BIGINT, "attributes" TEXT, "schedule_name" TEXT, "debounce_deadline_epoch_ms" BIGINT DEFAULT NULL, "is_debounced" BOOLEAN NOT NULL DEFAULT FALSE, "application_name" TEXT DEFAULT NULL, "creator_xid" TEXT DEFAULT NULL);
INSERT INTO "workflow_status" VALUES('finished','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12217-7d8c4b70',1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,1,'wesichain.golden',NULL,NULL,NULL,1794900625113,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900625000,'null',NULL,NULL,0,'wesichain','b0ae0305-2bae-4f42-ba31-489872aecf55');
INSERT INTO "workflow_status" VALUES('failed','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12217-7d8c4b70',1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,1,'wesichain.golden',NULL,NULL,NULL,1794900625198,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900625000,'null',NULL,NULL,0,'wesichain','e4b5ade2-30c6-4650-bacf-826984aa1bba');
INSERT INTO "workflow_status" VALUES('waiting','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12217-7d8c4b70',1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,1,'wesichain.golden',NULL,NULL,NULL,1794900625240,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900625000,'null',NULL,NULL,0,'wesichain','0fe741d0-17aa-46e3-b48a-d2477d1b2470');
INSERT INTO "workflow_status" VALUES('approved','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12217-7d8c4b70',1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,1,'wesichain.golden',NULL,NULL,NULL,1794900625283,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900625000,'null',NULL,NULL,0,'wesichain','47815d26-f17a-4133-a7be-ae5a2190ae5b');
INSERT INTO "workflow_status" VALUES('cancelled','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12217-7d8c4b70',1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,1,'wesichain.golden',NULL,NULL,NULL,1794900625302,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900625000,'null',NULL,NULL,0,'wesichain','62be238a-52b3-47ed-ae6e-66eacbc9f953');
INSERT INTO "workflow_status" VALUES('interrupted','PENDING','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12233-b330cccf',1794900625000,1794900625766,'dc0f2d27a07e',NULL,NULL,NULL,1,'wesichain.golden',NULL,NULL,NULL,1794900625766,NULL,10,NULL,NULL,'af299b09c3ac8316ab04f6e179fb4e7a',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'wesichain','c458398e-9e2c-4f89-94f7-a82625a4148c');
INSERT INTO "workflow_status" VALUES('approved/1','ENQUEUED','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,0,'wesichain.golden',NULL,NULL,NULL,NULL,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'wesichain','e8e2d71c-67a9-4d90-8250-2402f6247d83');
INSERT INTO "workflow_status" VALUES('queued','ENQUEUED','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794900625000,1794900625000,'dc0f2d27a07e',NULL,NULL,NULL,0,'wesichain.golden',NULL,NULL,NULL,NULL,NULL,10,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'wesichain','e3aabb30-98b6-445a-8b45-d2dd9aa0d8d1');
CREATE INDEX wesichain_runs_created ON wesichain_runs (created_at, run);
CREATE INDEX wesichain_runs_outcome ON wesichain_runs (outcome, created_at);
CREATE INDEX wesichain_children_created ON wesichain_children (created_at, id);
CREATE INDEX workflow_status_created_at_index ON workflow_status (created_at);
CREATE INDEX idx_workflow_topic ON notifications (destination_uuid, topic);
CREATE INDEX "idx_workflow_status_delayed" ON "workflow_status" ("delay_until_epoch_ms") WHERE status = 'DELAYED';
CREATE INDEX "idx_workflow_status_forked_from" ON "workflow_status" ("forked_from") WHERE "forked_from" IS NOT NULL;
CREATE INDEX "idx_workflow_status_parent_workflow_id" ON "workflow_status" ("parent_workflow_id") WHERE "parent_workflow_id" IS NOT NULL;
CREATE UNIQUE INDEX "uq_workflow_status_dedup_id" ON "workflow_status" ("queue_name", "deduplication_id") WHERE "deduplication_id" IS NOT NULL;
CREATE INDEX "idx_workflow_status_pending" ON "workflow_status" ("created_at") WHERE "status" = 'PENDING';
CREATE INDEX "idx_workflow_status_failed" ON "workflow_status" ("status", "created_at") WHERE "status" IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');
CREATE INDEX "idx_workflow_status_rate_limited" ON "workflow_status" ("queue_name", "started_at_epoch_ms") WHERE "rate_limited" = TRUE;
CREATE INDEX "idx_workflow_status_completed_at" ON "workflow_status" ("completed_at") WHERE "completed_at" IS NOT NULL;
CREATE INDEX "idx_workflow_status_started_at" ON "workflow_status" ("started_at_epoch_ms") WHERE "started_at_epoch_ms" IS NOT NULL;
CREATE INDEX "idx_workflow_status_schedule_name" ON "workflow_status" ("schedule_name") WHERE "schedule_name" IS NOT NULL;
CREATE UNIQUE INDEX "uq_application_versions_owner_version"
    ON application_versions ("application_name", "version_name")
    WHERE "application_name" IS NOT NULL;
CREATE UNIQUE INDEX "uq_application_versions_unclaimed_version"
    ON application_versions ("version_name")
    WHERE "application_name" IS NULL;
CREATE INDEX idx_workflow_input_retention
    ON workflow_input (retention_timestamp);
CREATE INDEX idx_workflow_output_retention
    ON workflow_output (retention_timestamp);
CREATE INDEX idx_operation_outputs_retention
    ON operation_outputs (retention_timestamp);
CREATE INDEX "idx_workflow_status_in_flight_v2" ON "workflow_status" ("queue_name", "status", "priority", "created_at", "application_name") WHERE "status" IN ('ENQUEUED', 'PENDING');
CREATE INDEX "idx_workflow_status_partition_dequeue_v3" ON "workflow_status" ("queue_name", "status", "queue_partition_key", "priority", "created_at", "workflow_uuid", "application_name") WHERE "status" IN ('ENQUEUED', 'PENDING') AND "queue_partition_key" IS NOT NULL;
CREATE INDEX "idx_operation_outputs_completed_at_function_name_v2" ON "operation_outputs" ("completed_at_epoch_ms", "function_name", "application_name");
CREATE INDEX "idx_workflow_status_deadline" ON "workflow_status" ("workflow_deadline_epoch_ms") WHERE "status" IN ('ENQUEUED', 'PENDING', 'DELAYED') AND "workflow_deadline_epoch_ms" IS NOT NULL;
COMMIT;
