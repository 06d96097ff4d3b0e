"""Fifty-three forms in which secrets are written, and fourteen harmless texts: ours, made up with random values.

They were written before the rules that are tested with them. Each row: what it is, the text, and every secret in it.
"""

from __future__ import annotations

JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    ".eyJzdWIiOiJ1LTQ4MjEiLCJyb2xlIjoiYmlsbGluZyIsImV4cCI6MTc5MDAwMDAwMH0"
    ".GpqGFT6ACnNkwlnstEge-9K9k1fGFHuFlShHrG9YKct"
)
RS256 = (
    "eyJhbGciOiJSUzI1NiIsImtpZCI6IjlmMmMifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUuY29tIiwic3ViIjoiNzcifQ"
    ".6UtkRpfWUhfmA-6ja0U3ESzYFt5OdOaSOYqjtO2V3aHAJWICx8ucERWEUwNJ5-c14rmNr7ULVfHmbjKy7b8M43"
)
KEY_LINES = (
    "Nc2zFaO38lqEqbNP+2eCFzCotpf2vPvVKXkei6UkgbWGCzisgiRVXOOjYSR1cQKx",
    "viqgOUwIwIk4kbChtyrAKMg4G0xzwHc5vRRc9o0Nx0hh3HU8cSEqL59PNLlQ495s",
    "SnAWscJCh3pZN582FbteIvvGB1hUZr0JqZmbQHfDYntyQZFgCXfJB72hc/o7CCk3",
)
_BODY = "\n".join(KEY_LINES)
_INDENTED = "\n    ".join(KEY_LINES)
_ESCAPED = "\\n".join(KEY_LINES)

FORMS: list[tuple[str, str, tuple[str, ...]]] = [
    # --- keys of clouds ---
    (
        "aws-credentials-file",
        ("[default]\naws_access_key_id = AKIA1C0YASCKBTWY3IDQ\n"
        "aws_secret_access_key = /aYBVJNc/QcNQnSky+i1KYeIGSuMmer5sqP1Zq9d\nregion = eu-west-1"),
        ("AKIA1C0YASCKBTWY3IDQ", "/aYBVJNc/QcNQnSky+i1KYeIGSuMmer5sqP1Zq9d"),
    ),
    (
        "aws-session-token-export",
        "export AWS_SESSION_TOKEN=IQoJb3JpZ2luX2VjEJr/XIc1P22ur5/eTV6QLd7047UjDy3w2WCn1iLR3bLfYmgj2yqz==",
        ("IQoJb3JpZ2luX2VjEJr/XIc1P22ur5/eTV6QLd7047UjDy3w2WCn1iLR3bLfYmgj2yqz==",),
    ),
    (
        "azure-storage-connection-string",
        ("DefaultEndpointsProtocol=https;AccountName=invoices;AccountKey="
        "NeqT7AexLQtBmnUbrw+zqu300DPOHehanFMIOfkrBB49n1q3zNz3UBxzw2hpNvVD0ebEM26APYkQtEyOEZEIhA==;"
        "EndpointSuffix=core.windows.net"),
        ("NeqT7AexLQtBmnUbrw+zqu300DPOHehanFMIOfkrBB49n1q3zNz3UBxzw2hpNvVD0ebEM26APYkQtEyOEZEIhA==",),
    ),
    (
        "azure-sas-url",
        ("GET https://invoices.blob.core.windows.net/in/a.pdf?sv=2023-11-03&st=2026-02-01T08%3A00%3A00Z"
        "&se=2026-02-02T08%3A00%3A00Z&sr=b&sp=r&sig=lXjh4q1zAmzuV6754JWOqsEzRznkH5Bz%2BXg8vUuG0bQ%3D"),
        ("lXjh4q1zAmzuV6754JWOqsEzRznkH5Bz%2BXg8vUuG0bQ%3D",),
    ),
    (
        "azure-client-secret-yaml",
        ("azure:\n  tenant_id: 5b0f6c1e-2a53-4f0f-9c11-0d6a0d3a7f42\n"
        "  client_secret: Kd~8Q~g0TDCX2GvrKik-rgXKSmrh4jX5BbG8BO4t"),
        ("Kd~8Q~g0TDCX2GvrKik-rgXKSmrh4jX5BbG8BO4t",),
    ),
    (
        "gcp-service-account-json",
        '{"type": "service_account", "project_id": "acme-prod", "private_key_id": '
        '"0d6a78695987bc9946a9364637543c2f26f0ba42", "private_key": "-----BEGIN PRIVATE KEY-----\\n'
        + _ESCAPED
        + '\\n-----END PRIVATE KEY-----\\n", "client_email": "bot@acme-prod.iam.gserviceaccount.com"}',
        KEY_LINES,
    ),
    (
        "google-key-in-a-url",
        "https://maps.googleapis.com/maps/api/geocode/json?address=Oslo&key=AIzaSyh8wSvnJBR3awIQMBdTZKmNnc4wzr3tN-v",
        ("AIzaSyh8wSvnJBR3awIQMBdTZKmNnc4wzr3tN-v",),
    ),
    (
        "google-oauth-client-secret",
        "client: 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 (web application)",
        ("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",),
    ),
    (
        "s3-presigned-url",
        ("https://acme.s3.amazonaws.com/r.csv?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
        "ASIAB5Y1NWD5MY57PCAG%2F20260201%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Expires=900&X-Amz-Signature="
        "31c842a750f64fdc9c0d2053c49bbe53e74ac9486b94553388623ec81761157c"),
        ("ASIAB5Y1NWD5MY57PCAG", "31c842a750f64fdc9c0d2053c49bbe53e74ac9486b94553388623ec81761157c"),
    ),
    (
        "digitalocean-token",
        "doctl auth init -t dop_v1_31c842a750f64fdc9c0d2053c49bbe53e74ac9486b94553388623ec81761157c",
        ("dop_v1_31c842a750f64fdc9c0d2053c49bbe53e74ac9486b94553388623ec81761157c",),
    ),
    (
        "cloudflare-token-dotenv",
        "CLOUDFLARE_API_TOKEN=g0TDCX2GvrKik-rgXKSmrh4jX5BbG8BO4tEU7Ig1\nCLOUDFLARE_ZONE=acme",
        ("g0TDCX2GvrKik-rgXKSmrh4jX5BbG8BO4tEU7Ig1",),
    ),
    # --- keys of models ---
    (
        "openai-project-key-in-an-error",
        ("openai.AuthenticationError: Error code: 401 - Incorrect API key provided: "
        "sk-proj-RlR7LCXhfxRe22_G6OrVFz2ZyY-5iINW8VOg0-7_nBthi77BT3BlbkFJAa7QD2fPyKbw5Zofut"),
        ("sk-proj-RlR7LCXhfxRe22_G6OrVFz2ZyY-5iINW8VOg0-7_nBthi77BT3BlbkFJAa7QD2fPyKbw5Zofut",),
    ),
    (
        "anthropic-key-in-python",
        'client = Anthropic(api_key="sk-ant-api03-151dhDE0QRiZAcENxrjKbmHg099Kvn58OWeeGWjVBt7kv_JKrjp4z1OEZMsAA")',
        ("sk-ant-api03-151dhDE0QRiZAcENxrjKbmHg099Kvn58OWeeGWjVBt7kv_JKrjp4z1OEZMsAA",),
    ),
    ("hugging-face-token", "huggingface-cli login --token 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", ("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",)),
    ("groq-key-alone", "use 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 for now", ("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",)),
    ("replicate-token", "Authorization: Token r8_pn1enywxOjn8jk8jBJmtAUOnl4fBjNpi3TzZ3", ("r8_pn1enywxOjn8jk8jBJmtAUOnl4fBjNpi3TzZ3",)),
    # --- forges, registries, CI ---
    (
        "github-app-token-in-a-clone-url",
        "git clone https://x-access-token:ghs_EFNLZoB5JtRNdAUM74rjGYMUbCQM72jLQ0dY@github.com/acme/app.git",
        ("ghs_EFNLZoB5JtRNdAUM74rjGYMUbCQM72jLQ0dY",),
    ),
    ("gitlab-header", "curl --header 'PRIVATE-TOKEN: glpat-ylm2MA-ap-8SznHWn-D5' https://gitlab.example.com/api/v4/user", ("glpat-ylm2MA-ap-8SznHWn-D5",)),
    ("npmrc", "//registry.npmjs.org/:_authToken=npm_EFNLZoB5JtRNdAUM74rjGYMUbCQM72jLQ0dY", ("npm_EFNLZoB5JtRNdAUM74rjGYMUbCQM72jLQ0dY",)),
    (
        "pypirc",
        "[pypi]\nusername = __token__\npassword = pypi-AgEIcHlwaS5vcmcCJGFjNzA0NjQ0RlR7LCXhfxRe22_G6OrVFz2ZyY-5iINW8VOg0",
        ("pypi-AgEIcHlwaS5vcmcCJGFjNzA0NjQ0RlR7LCXhfxRe22_G6OrVFz2ZyY-5iINW8VOg0",),
    ),
    ("docker-config-json", '{"auths": {"ghcr.io": {"auth": "cmVnaXN0cnktYm90OjRrVCFwb250b29u"}}}', ("cmVnaXN0cnktYm90OjRrVCFwb250b29u",)),
    ("netrc", "machine git.example.com\n  login deploy\n  password Rw7-pelican-Quay\n", ("Rw7-pelican-Quay",)),
    # --- messages and payments ---
    ("slack-bot-token", "SLACK=xoxb-3391846027741-4410829375560-DyRjSPhJuSKQPl3aJmKEwihg", ("xoxb-3391846027741-4410829375560-DyRjSPhJuSKQPl3aJmKEwihg",)),
    (
        "slack-app-token",
        "starting socket mode with xapp-1-A04F1KQ2X7C-4410829375560-31c842a750f64fdc9c0d2053c49bbe53e74ac9486b94553388623ec81761157c",
        ("31c842a750f64fdc9c0d2053c49bbe53e74ac9486b94553388623ec81761157c",),
    ),
    (
        "telegram-bot-url",
        "POST https://api.telegram.org/bot6381047725:AAHh8wSvnJBR3awIQMBdTZKmNnc4wzr3tNa/sendMessage 401",
        ("AAHh8wSvnJBR3awIQMBdTZKmNnc4wzr3tNa",),
    ),
    (
        "twilio-basic-auth-in-curl",
        "curl -X POST https://api.twilio.com/2010-04-01/Accounts -u AC92ed75842522e4f06ab79fed40770711:e2d98209b11082c0e8c07d19ab9ee33e",
        ("e2d98209b11082c0e8c07d19ab9ee33e",),
    ),
    ("stripe-webhook-secret", "endpoint secret whsec_lZHtG4u45VFXGTTT8TCMSFm8L1WAKLvk", ("whsec_lZHtG4u45VFXGTTT8TCMSFm8L1WAKLvk",)),
    ("stripe-restricted-key", "stripe listen --api-key rk_live_51EFNLZoB5JtRNdAUM74rjGYMUbCQM72jLQ0dYipsjItgMO", ("rk_live_51EFNLZoB5JtRNdAUM74rjGYMUbCQM72jLQ0dYipsjItgMO",)),
    ("shopify-header", "X-Shopify-Access-Token: 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", ("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",)),
    # --- tokens, cookies, basic auth ---
    ("jwt-in-a-log-line", f"2026-02-01 09:14:07 DEBUG gateway verifying {JWT} for u-4821", (JWT,)),
    ("jwt-in-a-cookie", f"Cookie: theme=dark; id_token={RS256}; lang=en", (RS256,)),
    ("opaque-bearer", '"authorization": "Bearer 5Yp_NG38Aa7QD2fPyKbw5Zofut"', ("5Yp_NG38Aa7QD2fPyKbw5Zofut",)),
    ("basic-auth-header", "> Authorization: Basic ZGVwbG95OlJ3Ny1wZWxpY2FuLVF1YXk=\n> Accept: */*", ("ZGVwbG95OlJ3Ny1wZWxpY2FuLVF1YXk",)),
    (
        "oauth-token-reply",
        ('{"token_type":"Bearer","expires_in":3600,"access_token":"ya29.a0RlR7LCXhfxRe22_G6OrVFz2ZyY",'
        '"refresh_token":"1//0gylm2MA-ap-8SznHWn-D5KW_5fxu4e"}'),
        ("ya29.a0RlR7LCXhfxRe22_G6OrVFz2ZyY", "1//0gylm2MA-ap-8SznHWn-D5KW_5fxu4e"),
    ),
    ("set-cookie-session", "Set-Cookie: sessionid=czdie1b7vpuirdzoqv3m7h77kw5f; Path=/; HttpOnly; Secure", ("czdie1b7vpuirdzoqv3m7h77kw5f",)),
    ("token-in-a-fragment", "redirected to https://app.example.com/cb#access_token=X7akNcHP1aNXDwIHeIQKCsAz&state=9f2c", ("X7akNcHP1aNXDwIHeIQKCsAz",)),
    # --- private keys ---
    ("rsa-private-key", f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n-----END RSA PRIVATE KEY-----", KEY_LINES),
    (
        "openssh-key-in-yaml",
        f"deploy_key: |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n    {_INDENTED}\n    -----END OPENSSH PRIVATE KEY-----\nuser: git",
        KEY_LINES,
    ),
    (
        "age-key-file",
        "# created: 2026-02-01T09:00:00Z\nAGE-SECRET-KEY-1QYPZ3L0RX8A9KDMS4UGV7N5TJH6C2W9FPZQ3L0RX8A9KDMS4UGVQS7N5TJ",
        ("1QYPZ3L0RX8A9KDMS4UGV7N5TJH6C2W9FPZQ3L0RX8A9KDMS4UGVQS7N5TJ",),
    ),
    # --- connection strings ---
    ("postgres-url-in-an-error", 'connection to "postgres://svc:pelican7Quay@db-2.internal:5432/ledger" failed', ("pelican7Quay",)),
    ("mongodb-srv", "MONGO=mongodb+srv://svc:4kT%21pontoon@cluster0.ab1cd.mongodb.net/?retryWrites=true", ("4kT%21pontoon",)),
    ("redis-without-a-user", "broker_url: redis://:wharf-lantern-88@cache:6379/0", ("wharf-lantern-88",)),
    ("libpq-dsn", "psycopg.connect(\"host=db user=svc password='Harbour 9 light' dbname=ledger\")", ("Harbour 9 light",)),
    ("jdbc-url", "jdbc:mysql://db:3306/ledger?user=svc&password=Tr0ub4dorHarbour&useSSL=true", ("Tr0ub4dorHarbour",)),
    ("ado-net", "Server=tcp:acme.database.windows.net,1433;User ID=svc;Password=Qu4y!lantern;Encrypt=True;", ("Qu4y!lantern",)),
    # --- configuration, shells, flags, logs ---
    ("dotenv-quoted", "DB_HOST=db\nDB_PASSWORD=\"wharf lantern 88\"\n# end", ("wharf lantern 88",)),
    ("kubernetes-env", "        - name: LEDGER_API_TOKEN\n          value: 8ZvOT6k5HP2nMjhV\n", ("8ZvOT6k5HP2nMjhV",)),
    ("xml-app-setting", '<add key="LedgerDbPassword" value="Qu4y-lantern-12" />', ("Qu4y-lantern-12",)),
    ("powershell", '$env:LEDGER_SECRET_KEY = "KFGt6g4t7dmWwKj2v2BS"', ("KFGt6g4t7dmWwKj2v2BS",)),
    ("docker-login", "docker login registry.example.com -u deploy -p Rw7-pelican-Quay", ("Rw7-pelican-Quay",)),
    ("az-login", "az login --service-principal --username 5b0f6c1e --password Kd8Qg0TDCX2Gvr --tenant acme", ("Kd8Qg0TDCX2Gvr",)),
    ("form-body", "body: grant_type=password&username=ann&password=4kT%21pontoon&scope=read", ("4kT%21pontoon",)),
    (
        "settings-repr-in-a-log",
        "INFO loaded Settings(host='db', user='svc', api_key='KFGt6g4t7dmWwKj2v2BS', smtp_password='wharf-lantern-88', retries=3)",
        ("KFGt6g4t7dmWwKj2v2BS", "wharf-lantern-88"),
    ),
]  # fmt: skip

HARMLESS: list[tuple[str, str]] = [
    ("commit", "Merge 7f3c9a2e41d05b68c2fa9e0d1b7735c4e8a06f12 into main (3 files changed)"),
    ("uuid", "run 5b0f6c1e-2a53-4f0f-9c11-0d6a0d3a7f42 took 3.2 s on worker-7"),
    ("digest", "sha256:38e0cf83ca8ff876441ca4107411ad0cbc725bfcfbac9f72e038b41ff03b307a ok"),
    ("call-id", '{"tool_call_id": "call_eT6t5whu3Ig1TCDiSrAeih1A", "name": "search"}'),
    ("usage", '{"max_tokens": 4096, "prompt_tokens": 812, "total_tokens": 1130, "token_type": "Bearer"}'),
    ("advice", "Use a password manager, rotate your API keys and never share a token by mail."),
    ("code", "def authenticate(user: str, password: str, *, token: str | None = None) -> Session: ..."),
    ("url", "https://docs.example.com/en/latest/reference/authentication.html?highlight=api%20key#tokens"),
    ("query", "SELECT id, password_changed_at FROM users WHERE token_count > 500 ORDER BY created_at"),
    ("path", "/usr/lib/python3.11/site-packages/cryptography/hazmat/primitives/serialization/ssh.py"),
    ("placeholder", "export OPENAI_API_KEY=<your key here>"),
    ("reference", "password: ${{ secrets.DEPLOY_PASSWORD }}"),
    ("image", "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="),
    ("prose", "The secretary of the keynote committee passed the tokens to the author: bring cookies."),
]  # fmt: skip
