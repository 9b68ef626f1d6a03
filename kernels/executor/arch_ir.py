"""Hold LLVM assembly of instructions that differ by architecture.

They are floating-point control, a pause and the cycle counter.
"""

from __future__ import annotations

from typing import Final

# Instructions of one architecture. flush_denormals returns the old floating-point control word,
# restore_control writes it back.
CONTROL: Final = {
    "x86": """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.readcyclecounter()

define internal i64 @flush_denormals() alwaysinline {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %old = load i32, ptr %word
  %new = or i32 %old, 32832                     ; flush to zero (bit 15), denormals are zero (bit 6)
  %same = icmp eq i32 %old, %new
  br i1 %same, label %done, label %write
write:
  store i32 %new, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  br label %done
done:
  %wide = zext i32 %old to i64
  ret i64 %wide
}

define internal void @restore_control(i64 %old) alwaysinline {
  %word = alloca i32
  %narrow = trunc i64 %old to i32
  store i32 %narrow, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}

define internal void @relax() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}

define internal i64 @ticks() alwaysinline {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
""",
    "aarch64": """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.read_volatile_register.i64(metadata)
!0 = !{!"cntvct_el0"}

define internal i64 @flush_denormals() alwaysinline {
  %old = call i64 @llvm.aarch64.get.fpcr()
  %new = or i64 %old, 16777216                  ; FZ (bit 24)
  call void @llvm.aarch64.set.fpcr(i64 %new)
  ret i64 %old
}

define internal void @restore_control(i64 %old) alwaysinline {
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}

define internal void @relax() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)           ; yield
  ret void
}

define internal i64 @ticks() alwaysinline {
  %now = call i64 @llvm.read_volatile_register.i64(metadata !0)  ; the cycle counter proper traps in user mode
  ret i64 %now
}
""",
    "other": """
define internal i64 @flush_denormals() alwaysinline {
  ret i64 0
}

define internal void @restore_control(i64 %old) alwaysinline {
  ret void
}

define internal void @relax() alwaysinline {
  ret void
}

declare i64 @llvm.readcyclecounter()

define internal i64 @ticks() alwaysinline {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
""",
}


def architecture(machine: str) -> str:
    """Return the key of the control instructions for `platform.machine()`."""
    machine = machine.lower()
    if machine in ("x86_64", "amd64"):
        return "x86"
    return "aarch64" if machine in ("aarch64", "arm64") else "other"
