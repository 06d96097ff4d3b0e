"""Fifty-two forms in which secrets are written, and fourteen harmless texts: from public sources.

Each row: what it is, the source, the text, and every secret in it. The sources are the test data of
detect-secrets 1.5.0 (Apache-2.0), the examples in the rules of Kingfisher 1.10.0 (Apache-2.0), standards, and
the documentation of providers. All are examples; none is in use.
"""

from __future__ import annotations

_DETECT = "detect-secrets, tests/plugins/{}_test.py"
_KINGFISHER = "Kingfisher, data/rules/{}.yml"
_ODD = "m{{h}o)p${e]nob(ody[finds>-_$#thisone}}"

FORMS: list[tuple[str, str, str, tuple[str, ...]]] = [
    # --- detect-secrets ---
    ("artifactory", _DETECT.format("artifactory"), "artifactoryx:_password=AKCxxxxxxxxxx", ("AKCxxxxxxxxxx",)),
    ("aws-key-id", _DETECT.format("aws_key"), "AKIAZZZZZZZZZZZZZZZZ", ("AKIAZZZZZZZZZZZZZZZZ",)),
    (
        "aws-secret-key", _DETECT.format("aws_key"), 'aws_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",),
    ),
    (
        "azure-account-key", _DETECT.format("azure_storage_key"),
        "AccountKey=lJzRc1YdHaAA2KCNJJ1tkYwF/+mKK6Ygw0NGe170Xu592euJv2wYUtBlV8z+qnlcNQSnIYVTkLWntUO1F8j8rQ==",
        ("lJzRc1YdHaAA2KCNJJ1tkYwF/+mKK6Ygw0NGe170Xu592euJv2wYUtBlV8z+qnlcNQSnIYVTkLWntUO1F8j8rQ==",),
    ),
    ("basic-auth", _DETECT.format("basic_auth"), "https://username:password@yelp.com", ("password",)),
    (
        "cloudant-pw", _DETECT.format("cloudant"),
        "cloudant_pw='abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234'",
        ("abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234",),
    ),
    (
        "discord-bot", _DETECT.format("discord"), "Nzk5MjgxNDk0NDc2NDU1OTg3.YABS5g.2lmzECVlZv3vv6miVnUaKPQi2wI",
        ("Nzk5MjgxNDk0NDc2NDU1OTg3.YABS5g.2lmzECVlZv3vv6miVnUaKPQi2wI",),
    ),
    ("github-token", _DETECT.format("github_token"), "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", ("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",)),
    ("gitlab-deploy-token", _DETECT.format("gitlab_token"), "gldt-HwllOuhfw-wu0rlD_yep", ("gldt-HwllOuhfw-wu0rlD_yep",)),
    (
        "ibm-cloud", _DETECT.format("ibm_cloud_iam"), '"ibm_cloud_iam_api_key":= "abcd1234abcd1234abcd1234ABCD1234ABCD1234--__"',
        ("abcd1234abcd1234abcd1234ABCD1234ABCD1234--__",),
    ),
    (
        "jwt-without-a-signature", _DETECT.format("jwt"),
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJuYW1lIjoiSm9lIiwKInN0YXR1cyI6ImVtcGxveWVlIgp9",
        ("eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJuYW1lIjoiSm9lIiwKInN0YXR1cyI6ImVtcGxveWVlIgp9",),
    ),
    ("mailchimp", _DETECT.format("mailchimp_key"), "343ea45721923ed956e2b38c31db76aa-us30", ("343ea45721923ed956e2b38c31db76aa-us30",)),
    (
        "npm-uuid", _DETECT.format("npm"), "//registry.npmjs.org/:_authToken=743b294a-cd03-11ec-9d64-0242ac120002",
        ("743b294a-cd03-11ec-9d64-0242ac120002",),
    ),
    ("openai", _DETECT.format("openai"), "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", ("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",)),
    (
        "test-pypi", _DETECT.format("pypi_token"),
        ("pypi-AgENdGVzdC5weXBpLm9yZwIkN2YxOWZhOWEtY2FjYS00MGZhLTj2MGEtODFjMnE2MjdmMzY0AAIqWzMsImJlM2FiOWI5LTRmYUTnNEg4ZS04"
        "Mjk0LWFlY2Y2NWYzNGYzNyJdAAAGIMb5Hb8nVvhcAizcVVzA-bKKnwN7Pe0RmgPRCvrPwyJf"),
        ("AgENdGVzdC5weXBpLm9yZwIkN2YxOWZhOWEtY2FjYS00MGZhLTj2MGEtODFjMnE2MjdmMzY0", "GIMb5Hb8nVvhcAizcVVzA-bKKnwN7Pe0RmgPRCvrPwyJf"),
    ),
    (
        "sendgrid", _DETECT.format("sendgrid"), "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",
        ("ngeVfQFYQlKU0ufo8x5d1A", "TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr"),
    ),
    ("slack-workspace", _DETECT.format("slack"), "xoxa-2-511111111-31111111111-3111111111111-e039d02840a0b9379c", ("e039d02840a0b9379c",)),
    (
        "softlayer-flag", _DETECT.format("softlayer"),
        '--softlayer-api-key "abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234"',
        ("abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234abcd1234",),
    ),
    ("square-oauth", _DETECT.format("square_oauth"), "square_oauth = sq0csp-ABCDEFGHIJK_LMNOPQRSTUVWXYZ-0123456789\\abcd", ("ABCDEFGHIJK_LMNOPQRSTUVWXYZ-0123456789",)),
    ("telegram", _DETECT.format("telegram_token"), "7213808860:AAH1bjqpKKW3maRSPAxzIU-0v6xNuq2-NjM", ("AAH1bjqpKKW3maRSPAxzIU-0v6xNuq2-NjM",)),
    ("private-key-cut-off", _DETECT.format("private_key"), "some text here\n-----BEGIN PRIVATE KEY-----\nyabba dabba doo", ("yabba dabba doo",)),
    ("comparison", _DETECT.format("keyword"), f'if (aws_secret_access_key === "{_ODD}") {{', (_ODD,)),
    ("comparison-turned-around", _DETECT.format("keyword"), f'if ("{_ODD}" == my_super_password) {{', (_ODD,)),
    ("objective-c", _DETECT.format("keyword"), 'password = @"value with quotes and spaces";', ("value with quotes and spaces",)),
    ("c++-constructor", _DETECT.format("keyword"), f'std::string secret("{_ODD}");', (_ODD,)),
    ("go-raw-string", _DETECT.format("keyword"), f"db_pass := `{_ODD}`", (_ODD,)),
    # --- Kingfisher ---
    ("docker-hub", _KINGFISHER.format("dockerhub"), "docker login -u gemesa -p dckr_pat_hc8VxYclixyTr2rDFsa2rqzkP3Y", ("dckr_pat_hc8VxYclixyTr2rDFsa2rqzkP3Y",)),
    ("doppler-service-token", _KINGFISHER.format("doppler"), "dp.st.dev.bAqhcVzrhy5cRHkOlNTc0Ve6w5NUDCpcutm8vGE9myi", ("bAqhcVzrhy5cRHkOlNTc0Ve6w5NUDCpcutm8vGE9myi",)),
    ("databricks", _KINGFISHER.format("databricks"), "dapif21ee53d2b3648c2a1ed38953312a203", ("dapif21ee53d2b3648c2a1ed38953312a203",)),
    (
        "airtable-pat", _KINGFISHER.format("airtable"),
        "airtable_pat = patXfsZBLOgxbJqSi.fd6210cfb2e0b2049bd8e7fa0e69f26a3a704412af6fcbd93a097c42507fc893",
        ("patXfsZBLOgxbJqSi", "fd6210cfb2e0b2049bd8e7fa0e69f26a3a704412af6fcbd93a097c42507fc893"),
    ),
    ("pulumi", _KINGFISHER.format("pulumi"), "pul-18e13e3eebebeb94eac318d421ca8ecc5ca78d5f", ("pul-18e13e3eebebeb94eac318d421ca8ecc5ca78d5f",)),
    ("square-token", _KINGFISHER.format("square"), "sq0atp-wQVXa6wRBlEEsd5OQtD7zg", ("sq0atp-wQVXa6wRBlEEsd5OQtD7zg",)),
    ("postgres-at-in-password", _KINGFISHER.format("postgres"), 'CONNECTION_URI="postgres://postgres:s2Tf2k@rLMy@google.com:5434/elephant"', ("s2Tf2k@rLMy",)),
    ("netrc-one-line", _KINGFISHER.format("netrc"), "machine api.github.com login ziggy^stardust password 012345abcdef", ("012345abcdef",)),
    ("gradle", _KINGFISHER.format("generic"), "buildConfigField 'String' , 'API_KEY' , '\"951bc382db9cfee29c68634761dd6e19\"'", ("951bc382db9cfee29c68634761dd6e19",)),
    # --- standards ---
    ("basic", "RFC 7617, section 2", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", ("QWxhZGRpbjpvcGVuIHNlc2FtZQ==",)),
    ("bearer", "RFC 6750, section 2.1", "GET /resource HTTP/1.1\nHost: server.example.com\nAuthorization: Bearer mF_9.B5f-4.1JqM", ("mF_9.B5f-4.1JqM",)),
    (
        "client-secret-in-a-form", "RFC 6749, section 2.3.1",
        "grant_type=refresh_token&refresh_token=tGzv3JOkF0XG5Qx2TlKWIA&client_id=s6BhdRkqt3&client_secret=7Fjfp0ZBr1KtDRbnfVdmIw",
        ("tGzv3JOkF0XG5Qx2TlKWIA", "7Fjfp0ZBr1KtDRbnfVdmIw"),
    ),
    ("cookie", "RFC 6265, section 3.1", "Cookie: SID=31d4d96e407aad42; lang=en-US", ("31d4d96e407aad42",)),
    (
        "oauth1", "RFC 5849, section 1.2",
        ('Authorization: OAuth realm="Photos",\n   oauth_consumer_key="dpf43f3p2l4k3l03",\n   oauth_signature_method="HMAC-SHA1",\n'
        '   oauth_token="nnch734d00sl2jdk",\n   oauth_signature="MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"'),
        ("nnch734d00sl2jdk", "MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"),
    ),
    # --- providers ---
    (
        "sigv4-header", "AWS, Signature Version 4, authorization header",
        ("Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-date, Signature=fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024"),
        ("AKIAIOSFODNN7EXAMPLE", "fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024"),
    ),
    ("mysql-in-docker", "Docker Hub, the image mysql", "docker run --name some-mysql -e MYSQL_ROOT_PASSWORD=my-secret-pw -d mysql:tag", ("my-secret-pw",)),
    ("kubernetes-secret", "Kubernetes, Secrets", "apiVersion: v1\nkind: Secret\ndata:\n  username: YWRtaW4=\n  password: MWYyZDFlMmU2N2Rm\n", ("MWYyZDFlMmU2N2Rm",)),
    ("kubectl", "Kubernetes, Managing Secrets using kubectl", "kubectl create secret generic db-user-pass --from-literal=password='S!B\\*d$zDsb='", ("S!B\\*d$zDsb=",)),
    ("stripe-curl", "Stripe, API reference, authentication", "curl https://api.stripe.com/v1/charges -u sk_test_4eC39HqLyjWDarjtT1zdp7dc:", ("sk_test_4eC39HqLyjWDarjtT1zdp7dc",)),
    (
        "azurite", "Azure, Azurite, well-known account",
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;",
        ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",),
    ),
    ("slack-webhook", "Slack, Incoming webhooks", "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", ("XXXXXXXXXXXXXXXXXXXXXXXX",)),
    ("telegram-url", "Telegram, Bot API, making requests", "https://api.telegram.org/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/getMe", ("ABC-DEF1234ghIkl-zyx57W2v1u123ew11",)),
    ("mongodb-percent", "MongoDB, Connection strings", "mongodb://myDatabaseUser:D1fficultP%40ssw0rd@mongodb0.example.com:27017/?authSource=admin", ("D1fficultP%40ssw0rd",)),
    ("sqlalchemy", "SQLAlchemy, Engine configuration", "postgresql+pg8000://dbuser:kx%40jj5%2Fg@pghost10/appdb", ("kx%40jj5%2Fg",)),
    (
        "wordpress", "WordPress, wp-config-sample and the secret-key service",
        "define('LOGGED_IN_KEY',    'MGKi8Br(&{H*~&0s;{k0<S(O:+f#WM+q|npJ-+P;RDKT:~jrmgj#/-,[hOBk!ry^');",
        ("MGKi8Br(&{H*~&0s;{k0<S(O:+f#WM+q|npJ-+P;RDKT:~jrmgj#/-,[hOBk!ry^",),
    ),
    ("otpauth", "Google Authenticator, Key URI format", "otpauth://totp/Example:alice@google.com?secret=JBSWY3DPEHPK3PXP&issuer=Example", ("JBSWY3DPEHPK3PXP",)),
]  # fmt: skip

HARMLESS: list[tuple[str, str, str]] = [
    ("template", _DETECT.format("basic_auth"), "http://localhost:5000/<%= @variable %>"),
    ("port", _DETECT.format("basic_auth"), "https://url:8000 @something else"),
    ("npm-reference", _DETECT.format("npm"), "//registry.npmjs.org/:_authToken=${NPM_TOKEN}"),
    ("jfrog-reference", _DETECT.format("artifactory"), "X-JFrog-Art-Api: $API_KEY"),
    ("inside-a-word", _DETECT.format("artifactory"), "testAKCwithinsomeirrelevantstring"),
    ("empty", _DETECT.format("keyword"), 'api_key = ""'),
    ("shell-reference", _DETECT.format("keyword"), "password: ${link}"),
    ("arn", _DETECT.format("telegram_token"), "arn:aws:sns:aaa:111122223333:aaaaaaaaaaaaaaaaaaassssssddddddddddddd"),
    ("other-prefix", _DETECT.format("github_token"), "foo_wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"),
    ("format-string", _DETECT.format("ibm_cloud_iam"), 'iam_api_key="%s" % IBM_IAM_API_KEY_ENV'),
    ("etag", "RFC 9110, section 8.8.3", 'ETag: W/"xyzzy-0815-33a64df551425fcc55e4d42a148795d9"'),
    ("sri", "W3C, Subresource Integrity", 'integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"'),
    ("traceparent", "W3C, Trace Context", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("public-key", "OpenSSH, ssh-keygen", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SaG6UOoqKLsabgH5C9okWi0dh2l9GKJl user@example.com"),
]  # fmt: skip
