"""`tfjit.audio`: WAV files."""

from tfjit.ops.records.audio import decode_wav, encode_wav

__all__ = ["decode_wav", "encode_wav"]
