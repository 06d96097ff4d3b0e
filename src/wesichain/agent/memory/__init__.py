"""Memory: what was said before a run, made fit to be shown, and kept for the next one."""

from .conversation import Conversation, RunMemory, checked_memory
from .history import clean_history, is_over, messages_of, opening, question_of
from .logs import PostgresConversations, SqliteConversations
from .stores import Conversations, MemoryConversations, StoredConversation

__all__ = [
    "Conversation",
    "Conversations",
    "MemoryConversations",
    "PostgresConversations",
    "RunMemory",
    "SqliteConversations",
    "StoredConversation",
    "checked_memory",
    "clean_history",
    "is_over",
    "messages_of",
    "opening",
    "question_of",
]
