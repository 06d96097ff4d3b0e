"""Accounts: the providers with OpenAI's APIs, their addresses, and the variables of their addresses and keys.

To add a provider, add a row here, and its name in `wesichain.agent.model_names` and the table of settings.
"""

from __future__ import annotations

from wesichain.llm.transport.keys import KeyAccount

OPENAI = KeyAccount("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY")
AZURE = KeyAccount("", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY")

# By the prefix in model names; the comment of a row is the page of the provider that names its address.
ACCOUNTS = {
    # https://docs.mistral.ai/api
    "mistral": KeyAccount("https://api.mistral.ai/v1", "MISTRAL_BASE_URL", "MISTRAL_API_KEY"),
    # https://console.groq.com/docs/openai
    "groq": KeyAccount("https://api.groq.com/openai/v1", "GROQ_BASE_URL", "GROQ_API_KEY"),
    # https://openrouter.ai/docs/quickstart
    "openrouter": KeyAccount("https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", "OPENROUTER_API_KEY"),
    # https://api-docs.deepseek.com
    "deepseek": KeyAccount("https://api.deepseek.com", "DEEPSEEK_BASE_URL", "DEEPSEEK_API_KEY"),
    # https://docs.x.ai/docs/api-reference
    "xai": KeyAccount("https://api.x.ai/v1", "XAI_BASE_URL", "XAI_API_KEY"),
    # https://docs.together.ai/docs/inference/openai-compatibility
    "together": KeyAccount("https://api.together.ai/v1", "TOGETHER_BASE_URL", "TOGETHER_API_KEY"),
    # https://docs.fireworks.ai/tools-sdks/openai-compatibility
    "fireworks": KeyAccount(
        "https://api.fireworks.ai/inference/v1", "FIREWORKS_BASE_URL", "FIREWORKS_API_KEY"
    ),
    # https://inference-docs.cerebras.ai/resources/openai
    "cerebras": KeyAccount("https://api.cerebras.ai/v1", "CEREBRAS_BASE_URL", "CEREBRAS_API_KEY"),
    # https://docs.cohere.com/docs/compatibility-api; the variable is that of Cohere's own SDK
    "cohere": KeyAccount("https://api.cohere.ai/compatibility/v1", "COHERE_BASE_URL", "CO_API_KEY"),
    # https://platform.kimi.ai/docs/api/overview
    "moonshot": KeyAccount("https://api.moonshot.ai/v1", "MOONSHOT_BASE_URL", "MOONSHOT_API_KEY"),
    # https://docs.tokenfactory.nebius.com/api-reference/introduction
    "nebius": KeyAccount("https://api.tokenfactory.nebius.com/v1", "NEBIUS_BASE_URL", "NEBIUS_API_KEY"),
    # https://docs.perplexity.ai/docs/grounded-llm/openai-compatibility: the Responses API
    "perplexity": KeyAccount("https://api.perplexity.ai/v1", "PERPLEXITY_BASE_URL", "PERPLEXITY_API_KEY"),
    # https://huggingface.co/docs/inference-providers
    "huggingface": KeyAccount("https://router.huggingface.co/v1", "HF_BASE_URL", "HF_TOKEN"),
    # https://docs.github.com/en/github-models/quickstart
    "github": KeyAccount("https://models.github.ai/inference", "GITHUB_MODELS_BASE_URL", "GITHUB_TOKEN"),
    # https://vercel.com/docs/ai-gateway/openai-compat
    "vercel": KeyAccount("https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_BASE_URL", "AI_GATEWAY_API_KEY"),
    # https://docs.litellm.ai/docs/providers/litellm_proxy
    "litellm": KeyAccount("http://127.0.0.1:4000", "LITELLM_PROXY_API_BASE", "LITELLM_PROXY_API_KEY"),
}
