"""How much memory learners of dependency trees need, estimated before they start.

The constants are measured: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
"""

from __future__ import annotations

from sapwood.core.errors import count
from sapwood.core.memory import require_memory
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.learn.moments import SHARD_WORDS
from sapwood.execute import Engine

KERNELS, EM_KERNELS = 150e6, 80e6  # bytes of Numba and compiled kernels, of parsers and of EM
TABLES = 5  # arrays as large as the largest table of weights, besides four for each thread
PARSER_TOKEN, LATENT_TOKEN = 2_000, 100  # bytes a token
STATE_COPIES, WORD_COPIES = 20, 8  # arrays of the vectors of all symbols, and of words in work


def require_parser_memory(bank: ArcBank, engine: Engine, n_weights: int) -> None:
    """Refuse to learn a parser if the tables of its weights do not fit into memory."""
    require_memory(
        parser_bytes(bank.n_tokens, n_weights, engine.jobs_here),
        f"training on {count(len(bank), 'sentence')}",
        "give fewer sentences, or use one thread (--jobs 1)",
    )


def require_latent_memory(
    bank: ArcBank, engine: Engine, n_symbols: int, n_states: int, kernels: float = 0.0
) -> None:
    """Refuse to learn hidden states if the tables of symbols and states do not fit into memory."""
    require_memory(
        kernels + latent_bytes(bank.n_tokens, n_symbols, n_states, engine.jobs_here),
        f"training on {count(len(bank), 'sentence')} with {count(n_states, 'state')}",
        "use fewer states (--states), give fewer sentences, or use one thread (--jobs 1)",
    )


def parser_bytes(n_tokens: int, n_weights: int, jobs: int) -> float:
    """Bytes of learning a parser by features."""
    return KERNELS + PARSER_TOKEN * n_tokens + 4 * (TABLES + 4 * jobs) * n_weights


def latent_bytes(n_tokens: int, n_symbols: int, n_states: int, jobs: int) -> float:
    """Bytes of learning hidden states of words, by moments or by EM."""
    tables = n_symbols * n_states + n_states**3
    vectors = min(n_tokens, jobs * SHARD_WORDS) * n_states  # of the words that are in work
    return LATENT_TOKEN * n_tokens + 8 * ((STATE_COPIES + jobs) * tables + WORD_COPIES * vectors)
