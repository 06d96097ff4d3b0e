# The image of a worker or a viewer: this repository's wesichain, with what durable runs need.
FROM python:3.12-slim
ARG EXTRAS=durable,postgres,cli,web,openai,anthropic
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir "/src[$EXTRAS]"
WORKDIR /app
ENV PYTHONPATH=/app WESICHAIN_HOME=/var/lib/wesichain
ENTRYPOINT ["wesichain"]
