BEGIN TRANSACTION;
CREATE TABLE application_versions (
    version_id TEXT NOT NULL PRIMARY KEY,
    version_name TEXT NOT NULL UNIQUE,
    version_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL);
INSERT INTO "application_versions" VALUES('9dd9b61a-25ea-4dec-9680-62c94f858f5d','1',1794900620000,1794900620000,'wesichain');
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
INSERT INTO "operation_outputs" VALUES('finished',1,'begin','"{\"asked\":\"31923e5f34eff1a785008c73d3ccf4610ca596a355b13139ff7c4bd0916b2324\",\"at\":1794900620.6779077,\"elapsed\":0.007819097999913538,\"deed\":{\"value\":[\"Be brief.\",\"\"]}}"',NULL,NULL,1794900620670,1794900620678,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('finished',2,'ask 1','"{\"asked\":\"9233285cd402d65ec01525a372336d0c09e587b628c03ed5dc6b8ac904a61ccc\",\"at\":1794900620.6976497,\"elapsed\":0.011335661999851254,\"deed\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}]}}}"',NULL,NULL,1794900620694,1794900620697,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('finished',3,'call 1 c0 1','"{\"asked\":\"b921a278cdd56d303f8beab14c1edf3fa7499e7d1674f09bfd746f33f18cd9f6\",\"at\":1794900620.7088265,\"elapsed\":0.016668455999820253,\"deed\":{\"value\":\"grün at look\",\"duration_ms\":2.8658450000875746}}"',NULL,NULL,1794900620703,1794900620709,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('finished',4,'ask 2','"{\"asked\":\"e04c1422c6d8d70cd5c60b10df5575a100b97f39904cace48ab6761692aa39f6\",\"at\":1794900620.7166038,\"elapsed\":0.018638683999824934,\"deed\":{\"reply\":{\"content\":\"Done with look.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"stop\"}}}"',NULL,NULL,1794900620714,1794900620716,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('failed',1,'begin','"{\"asked\":\"a89dec98517202c4b8d720e2ccca69fd5f73996dc4ea401d81c140ace8aad8cb\",\"at\":1794900620.7557373,\"elapsed\":0.0015698629999860714,\"deed\":{\"value\":[\"Be brief.\",\"\"]}}"',NULL,NULL,1794900620754,1794900620755,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('failed',2,'ask 1','"{\"asked\":\"cfd27ec476fee7e7febd4035e0826f7d1921d3322596d603ee4ec24331118e8e\",\"at\":1794900620.7605627,\"elapsed\":0.003383903999974791,\"deed\":{\"raised\":{\"error\":\"LlmRejectedError\",\"message\":\"no more of this\"}}}"',NULL,NULL,1794900620758,1794900620760,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('waiting',1,'begin','"{\"asked\":\"3dbdb886e9e4e44df71bfd61ab582d81a8016c3a55d84a6c766ceccc016e0a1b\",\"at\":1794900620.7831426,\"elapsed\":0.0016345950000413723,\"deed\":{\"value\":[\"Be brief.\",\"\"]}}"',NULL,NULL,1794900620781,1794900620783,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('waiting',2,'ask 1','"{\"asked\":\"0a6d9d19b111251192b0ac1bc2a0df48c5fb37a8a16b718fd09337f7c5fa3a06\",\"at\":1794900620.7877574,\"elapsed\":0.0032505689999879905,\"deed\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}}}"',NULL,NULL,1794900620786,1794900620787,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('approved',1,'begin','"{\"asked\":\"3dbdb886e9e4e44df71bfd61ab582d81a8016c3a55d84a6c766ceccc016e0a1b\",\"at\":1794900620.812978,\"elapsed\":0.0014935780000087107,\"deed\":{\"value\":[\"Be brief.\",\"\"]}}"',NULL,NULL,1794900620811,1794900620813,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('approved',2,'ask 1','"{\"asked\":\"0a6d9d19b111251192b0ac1bc2a0df48c5fb37a8a16b718fd09337f7c5fa3a06\",\"at\":1794900620.8167553,\"elapsed\":0.0028323770000042714,\"deed\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}}}"',NULL,NULL,1794900620815,1794900620816,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('cancelled',1,'begin','"{\"asked\":\"3dbdb886e9e4e44df71bfd61ab582d81a8016c3a55d84a6c766ceccc016e0a1b\",\"at\":1794900620.832423,\"elapsed\":0.0011552270000265707,\"deed\":{\"value\":[\"Be brief.\",\"\"]}}"',NULL,NULL,1794900620831,1794900620832,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('cancelled',2,'ask 1','"{\"asked\":\"0a6d9d19b111251192b0ac1bc2a0df48c5fb37a8a16b718fd09337f7c5fa3a06\",\"at\":1794900620.836075,\"elapsed\":0.0023910529999966457,\"deed\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}}}"',NULL,NULL,1794900620834,1794900620836,'portable_json','wesichain',1794900620000);
INSERT INTO "operation_outputs" VALUES('interrupted',1,'begin','"{\"asked\":\"be1ceb928387eff135352f4a8b240abfa89a4eeffd4995bfbcdcc988e02cf69e\",\"at\":1794900621.1244915,\"elapsed\":0.004146558999991612,\"deed\":{\"value\":[\"Be brief.\",\"\"]}}"',NULL,NULL,1794900621120,1794900621125,'portable_json','wesichain',1794900621000);
INSERT INTO "operation_outputs" VALUES('interrupted',2,'ask 1','"{\"asked\":\"74af87ae09c86065b25db3be6285f9f61fe9946e1392d22bea2347c17a755ba5\",\"at\":1794900621.140957,\"elapsed\":0.007114387000001443,\"deed\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"die\"}}]}}}"',NULL,NULL,1794900621138,1794900621141,'portable_json','wesichain',1794900621000);
INSERT INTO "operation_outputs" VALUES('interrupted',3,'call 1 c0 1','"{\"asked\":\"fb2b36fd8b503e27a41348cf6cb9a4c4cb89deefbf8e83b7cedb557e39230988\",\"at\":1794900621.1510222,\"elapsed\":0.01185086800001045,\"deed\":{\"value\":\"grün at die\",\"duration_ms\":2.8728640000963424}}"',NULL,NULL,1794900621146,1794900621151,'portable_json','wesichain',1794900621000);
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
INSERT INTO "queues" VALUES('A34E0E43F79CC501DAFA35782A28F6E9','wesichain.golden',NULL,10,NULL,NULL,1,0,0.2,1794900620000,1794900621094,'wesichain',NULL,NULL,NULL,NULL);
CREATE TABLE streams (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL, function_id INTEGER NOT NULL DEFAULT 0, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key, "offset"),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE wesichain_decisions (
        run TEXT NOT NULL, token TEXT NOT NULL, decision TEXT NOT NULL, PRIMARY KEY (run, token)
    );
INSERT INTO "wesichain_decisions" VALUES('cancelled','','cancelled');
INSERT INTO "wesichain_decisions" VALUES('approved','6c8d05e008870f2e0d2f0ad346c4d84b','{"kind":"approve"}');
CREATE TABLE wesichain_leases (
        executor TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, beat BIGINT NOT NULL
    );
INSERT INTO "wesichain_leases" VALUES('vm-12200-5f1da766','vm pid:[4026531836]',12200,0);
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
INSERT INTO "workflow_input" VALUES('finished','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"look\"}"]}',1794900620000);
INSERT INTO "workflow_input" VALUES('failed','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"fail\"}"]}',1794900620000);
INSERT INTO "workflow_input" VALUES('waiting','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"send\"}"]}',1794900620000);
INSERT INTO "workflow_input" VALUES('approved','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"send\"}"]}',1794900620000);
INSERT INTO "workflow_input" VALUES('cancelled','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"send\"}"]}',1794900620000);
INSERT INTO "workflow_input" VALUES('interrupted','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"die\"}"]}',1794900621000);
INSERT INTO "workflow_input" VALUES('approved/1','{"namedArgs":{},"positionalArgs":["{\"kind\":\"go_on\",\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"approved\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0},\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"6c8d05e008870f2e0d2f0ad346c4d84b\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[]},\"tally\":{\"faults\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"repeats\":1}},\"decisions\":{\"6c8d05e008870f2e0d2f0ad346c4d84b\":{\"kind\":\"approve\"}},\"at\":1794900621.2860537}"]}',1794900621000);
INSERT INTO "workflow_input" VALUES('queued','{"namedArgs":{},"positionalArgs":["{\"kind\":\"begin\",\"task\":\"look\"}"]}',1794900621000);
CREATE TABLE workflow_output (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    output TEXT,
    error TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
INSERT INTO "workflow_output" VALUES('finished','"{\"outcome\":{\"kind\":\"completed\",\"run_id\":\"finished\",\"task\":\"look\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":8,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"look\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}]},{\"role\":\"tool\",\"content\":\"grün at look\",\"tool_call_id\":\"c0\"},{\"role\":\"assistant\",\"content\":\"Done with look.\"}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}},{\"kind\":\"observation\",\"value\":\"grün at look\",\"call_id\":\"c0\"},{\"kind\":\"final_answer\",\"text\":\"Done with look.\"}],\"spent\":{\"steps\":2,\"usage\":{\"input_tokens\":200,\"output_tokens\":14},\"tool_calls\":1,\"free_retries\":0},\"text\":\"Done with look.\",\"stopped_by\":null},\"events\":[{\"kind\":\"run_started\",\"run_id\":\"finished\",\"step_id\":0,\"seq\":1,\"at\":1794900620.6779077,\"user_input\":\"look\",\"model\":\"function\",\"tools\":[{\"name\":\"look\",\"description\":\"Look somewhere.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"at\":{\"type\":\"string\"}},\"required\":[\"at\"],\"type\":\"object\"}},{\"name\":\"send\",\"description\":\"Send a message.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"to\":{\"type\":\"string\"}},\"required\":[\"to\"],\"type\":\"object\"}}]},{\"kind\":\"step_started\",\"run_id\":\"finished\",\"step_id\":1,\"seq\":2,\"at\":1794900620.6779077,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"look\"}]},{\"kind\":\"model_responded\",\"run_id\":\"finished\",\"step_id\":1,\"seq\":3,\"at\":1794900620.6976497,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}]},\"duration_ms\":3.516},{\"kind\":\"tool_dispatched\",\"run_id\":\"finished\",\"step_id\":1,\"seq\":4,\"at\":1794900620.6976497,\"call\":{\"id\":\"c0\",\"name\":\"look\",\"args\":{\"at\":\"look\"}}},{\"kind\":\"tool_completed\",\"run_id\":\"finished\",\"step_id\":1,\"seq\":5,\"at\":1794900620.7088265,\"call_id\":\"c0\",\"tool_name\":\"look\",\"value\":\"grün at look\",\"duration_ms\":2.8658450000875746},{\"kind\":\"step_started\",\"run_id\":\"finished\",\"step_id\":2,\"seq\":6,\"at\":1794900620.7088265,\"follows\":true},{\"kind\":\"model_responded\",\"run_id\":\"finished\",\"step_id\":2,\"seq\":7,\"at\":1794900620.7166038,\"response\":{\"content\":\"Done with look.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"stop\"},\"duration_ms\":1.97},{\"kind\":\"run_completed\",\"run_id\":\"finished\",\"step_id\":2,\"seq\":8,\"at\":1794900620.7166038,\"output\":\"Done with look.\",\"usage\":{\"input_tokens\":200,\"output_tokens\":14}}]}"',NULL,1794900620000);
INSERT INTO "workflow_output" VALUES('failed','"{\"outcome\":{\"kind\":\"failed\",\"run_id\":\"failed\",\"task\":\"fail\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"fail\"}],\"steps\":[{\"kind\":\"error\",\"message\":\"the model could not be asked: no more of this\"}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":0,\"output_tokens\":0},\"tool_calls\":0,\"free_retries\":0},\"error\":\"ModelTransportError\",\"message\":\"the model could not be asked: no more of this\",\"fields\":{\"step_id\":1}},\"events\":[{\"kind\":\"run_started\",\"run_id\":\"failed\",\"step_id\":0,\"seq\":1,\"at\":1794900620.7557373,\"user_input\":\"fail\",\"model\":\"function\",\"tools\":[{\"name\":\"look\",\"description\":\"Look somewhere.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"at\":{\"type\":\"string\"}},\"required\":[\"at\"],\"type\":\"object\"}},{\"name\":\"send\",\"description\":\"Send a message.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"to\":{\"type\":\"string\"}},\"required\":[\"to\"],\"type\":\"object\"}}]},{\"kind\":\"step_started\",\"run_id\":\"failed\",\"step_id\":1,\"seq\":2,\"at\":1794900620.7557373,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"fail\"}]},{\"kind\":\"step_failed\",\"run_id\":\"failed\",\"step_id\":1,\"seq\":3,\"at\":1794900620.7605627,\"error\":\"LlmRejectedError\",\"message\":\"the model could not be asked: no more of this\",\"decision\":\"fail\"},{\"kind\":\"run_failed\",\"run_id\":\"failed\",\"step_id\":1,\"seq\":4,\"at\":1794900620.7605627,\"error\":\"ModelTransportError\",\"message\":\"the model could not be asked: no more of this\",\"usage\":{\"input_tokens\":0,\"output_tokens\":0}}]}"',NULL,1794900620000);
INSERT INTO "workflow_output" VALUES('waiting','"{\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"waiting\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0},\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"53eaa160e8c7b507eeb90829b9dc2a91\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[]},\"tally\":{\"faults\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"repeats\":1}},\"events\":[{\"kind\":\"run_started\",\"run_id\":\"waiting\",\"step_id\":0,\"seq\":1,\"at\":1794900620.7831426,\"user_input\":\"send\",\"model\":\"function\",\"tools\":[{\"name\":\"look\",\"description\":\"Look somewhere.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"at\":{\"type\":\"string\"}},\"required\":[\"at\"],\"type\":\"object\"}},{\"name\":\"send\",\"description\":\"Send a message.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"to\":{\"type\":\"string\"}},\"required\":[\"to\"],\"type\":\"object\"}}]},{\"kind\":\"step_started\",\"run_id\":\"waiting\",\"step_id\":1,\"seq\":2,\"at\":1794900620.7831426,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"}]},{\"kind\":\"model_responded\",\"run_id\":\"waiting\",\"step_id\":1,\"seq\":3,\"at\":1794900620.7877574,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"duration_ms\":1.615},{\"kind\":\"run_interrupted\",\"run_id\":\"waiting\",\"step_id\":1,\"seq\":4,\"at\":1794900620.7877574,\"reason\":\"approval\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"53eaa160e8c7b507eeb90829b9dc2a91\"}]}]}"',NULL,1794900620000);
INSERT INTO "workflow_output" VALUES('approved','"{\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"approved\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0},\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"6c8d05e008870f2e0d2f0ad346c4d84b\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[]},\"tally\":{\"faults\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"repeats\":1}},\"events\":[{\"kind\":\"run_started\",\"run_id\":\"approved\",\"step_id\":0,\"seq\":1,\"at\":1794900620.812978,\"user_input\":\"send\",\"model\":\"function\",\"tools\":[{\"name\":\"look\",\"description\":\"Look somewhere.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"at\":{\"type\":\"string\"}},\"required\":[\"at\"],\"type\":\"object\"}},{\"name\":\"send\",\"description\":\"Send a message.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"to\":{\"type\":\"string\"}},\"required\":[\"to\"],\"type\":\"object\"}}]},{\"kind\":\"step_started\",\"run_id\":\"approved\",\"step_id\":1,\"seq\":2,\"at\":1794900620.812978,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"}]},{\"kind\":\"model_responded\",\"run_id\":\"approved\",\"step_id\":1,\"seq\":3,\"at\":1794900620.8167553,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"duration_ms\":1.338},{\"kind\":\"run_interrupted\",\"run_id\":\"approved\",\"step_id\":1,\"seq\":4,\"at\":1794900620.8167553,\"reason\":\"approval\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"6c8d05e008870f2e0d2f0ad346c4d84b\"}]}]}"',NULL,1794900620000);
INSERT INTO "workflow_output" VALUES('cancelled','"{\"outcome\":{\"kind\":\"interrupted\",\"run_id\":\"cancelled\",\"task\":\"send\",\"state\":null,\"first_new\":1,\"earlier\":0,\"last_seq\":4,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"},{\"role\":\"assistant\",\"content\":\"Step 0.\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]}],\"steps\":[{\"kind\":\"thought\",\"text\":\"Step 0.\"},{\"kind\":\"action\",\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}}],\"spent\":{\"steps\":1,\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"tool_calls\":0,\"free_retries\":0},\"reason\":\"approval\",\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"534fc96eca56aa51b0f446a18a69ef66\"}],\"unfinished\":{\"reply\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"done\":[]},\"tally\":{\"faults\":null,\"reprompts\":null,\"tool_failures\":null,\"excluded\":[],\"last_call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"repeats\":1}},\"events\":[{\"kind\":\"run_started\",\"run_id\":\"cancelled\",\"step_id\":0,\"seq\":1,\"at\":1794900620.832423,\"user_input\":\"send\",\"model\":\"function\",\"tools\":[{\"name\":\"look\",\"description\":\"Look somewhere.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"at\":{\"type\":\"string\"}},\"required\":[\"at\"],\"type\":\"object\"}},{\"name\":\"send\",\"description\":\"Send a message.\",\"parameters\":{\"additionalProperties\":false,\"properties\":{\"to\":{\"type\":\"string\"}},\"required\":[\"to\"],\"type\":\"object\"}}]},{\"kind\":\"step_started\",\"run_id\":\"cancelled\",\"step_id\":1,\"seq\":2,\"at\":1794900620.832423,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"send\"}]},{\"kind\":\"model_responded\",\"run_id\":\"cancelled\",\"step_id\":1,\"seq\":3,\"at\":1794900620.836075,\"response\":{\"content\":\"Step 0.\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"finish_reason\":\"tool_calls\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}}]},\"duration_ms\":1.235},{\"kind\":\"run_interrupted\",\"run_id\":\"cancelled\",\"step_id\":1,\"seq\":4,\"at\":1794900620.836075,\"reason\":\"approval\",\"usage\":{\"input_tokens\":100,\"output_tokens\":7},\"pending\":[{\"call\":{\"id\":\"c0\",\"name\":\"send\",\"args\":{\"to\":\"Ada\"}},\"token\":\"534fc96eca56aa51b0f446a18a69ef66\"}]}]}"',NULL,1794900620000);
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
INSERT INTO "workflow_status" VALUES('finished','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12184-20317ea4',1794900620000,1794900620000,'1','',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900620000,'null',NULL,NULL,0,'wesichain','a559413f-a3da-42a5-90b0-de54d9c65e4b');
INSERT INTO "workflow_status" VALUES('failed','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12184-20317ea4',1794900620000,1794900620000,'1','',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900620000,'null',NULL,NULL,0,'wesichain','865d6793-c076-4acf-8576-efad4771c399');
INSERT INTO "workflow_status" VALUES('waiting','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12184-20317ea4',1794900620000,1794900620000,'1','',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900620000,'null',NULL,NULL,0,'wesichain','e58d215c-e807-499a-8b04-224e2a43f520');
INSERT INTO "workflow_status" VALUES('approved','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12184-20317ea4',1794900620000,1794900620000,'1','',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900620000,'null',NULL,NULL,0,'wesichain','32ac6839-7234-481c-af8f-d3b136534c47');
INSERT INTO "workflow_status" VALUES('cancelled','SUCCESS','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12184-20317ea4',1794900620000,1794900620000,'1','',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1794900620000,'null',NULL,NULL,0,'wesichain','6a720bd1-e944-445d-8b9c-c65927c07ead');
INSERT INTO "workflow_status" VALUES('interrupted','PENDING','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,'vm-12200-5f1da766',1794900621000,1794900621000,'1','',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,'417432cf-ba96-4f65-a9bf-b30fdc768331',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'wesichain','417432cf-ba96-4f65-a9bf-b30fdc768331');
INSERT INTO "workflow_status" VALUES('approved/1','ENQUEUED','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794900621000,1794900621000,NULL,NULL,NULL,NULL,0,'wesichain.golden',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'wesichain','26a02cee-3346-4b44-aae1-1f895463d1d8');
INSERT INTO "workflow_status" VALUES('queued','ENQUEUED','wesichain.golden',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794900621000,1794900621000,NULL,NULL,NULL,NULL,0,'wesichain.golden',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'wesichain','9343f06b-c4d6-41c9-bc13-f4a9fcb0db36');
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
