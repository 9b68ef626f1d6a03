"""Permute indices by a block cipher, without a table of the permutation.

Sources: Black and Rogaway 2002, "Ciphers with arbitrary finite domains" (cycle walking); Beaulieu
et al. 2013, "The SIMON and SPECK families of lightweight block ciphers",
https://eprint.iacr.org/2013/404.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_LEAST_BITS: Final = 16  # of a block
_CONSTANT: Final = 0xFFFFFFFC
_SEQUENCE: Final = 0x7369F885192C0EF5


class _Cipher:
    """Encrypt numbers of two words, of any number of bits."""

    def __init__(self, bits: int, key: Sequence[int], rounds: int) -> None:
        self._bits = bits
        self._mask = mask = (1 << bits) - 1
        self._keys = [part & mask for part in key]
        sequence = _SEQUENCE & mask
        for i in range(len(self._keys), rounds):
            last = self._keys[i - 1]
            mixed = self._left(last, bits - 3) ^ self._left(last, bits - 4)
            constant = (_CONSTANT & mask) ^ (sequence & 1)
            self._keys.append(constant ^ self._keys[i - 3] ^ mixed)
            sequence >>= 1

    def _left(self, word: int, count: int) -> int:
        """Rotate a word to the left."""
        return (word << count | word >> (self._bits - count)) & self._mask

    def _mixed(self, word: int) -> int:
        return self._left(word, 1) & self._left(word, 8) ^ self._left(word, 2)

    def encrypt(self, value: int) -> int:
        """Return the encrypted block."""
        left, right = (value >> self._bits) & self._mask, value & self._mask
        for first, second in zip(self._keys[::2], self._keys[1::2], strict=True):
            left ^= self._mixed(right) ^ first
            right ^= self._mixed(left) ^ second
        return left << self._bits | right


def index_shuffle(index: int, key: Sequence[int], max_index: int, rounds: int) -> int:
    """Return the place of an index in a permutation of 0..max_index.

    key: three words of 32 bits. rounds: an even number, from 4 on.
    """
    if max_index == 0:
        return 0
    bits = math.ceil(math.log2(max_index))
    cipher = _Cipher(max(bits + bits % 2, _LEAST_BITS) // 2, key, rounds)
    found = cipher.encrypt(index)
    while found > max_index:
        found = cipher.encrypt(found)
    return found
