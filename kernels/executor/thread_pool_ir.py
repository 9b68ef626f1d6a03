"""Write the intra-op pool in LLVM assembly.

It shares launches out and runs the helper threads' loop. thread_pool.py describes the pool's state.
"""

from __future__ import annotations

from string import Template
from typing import Final

MASK_BYTES: Final = 128  # size of a cpu_set_t: 1024 processors

_TEXT: Final = """
define i64 @tfjit_ticks() {
  %now = call i64 @ticks()
  ret i64 %now
}

define i64 @tfjit_control_word() {
  %old = call i64 @flush_denormals()
  call void @restore_control(i64 %old)
  ret i64 %old
}

; Whether a job's word has chunks that nobody claimed: first in bits 0-20, end in bits 21-41, their number in bits 42-62.
define internal i1 @unclaimed(i64 %word) alwaysinline {
  %first = and i64 %word, 2097151
  %shifted = lshr i64 %word, 21
  %end = and i64 %shifted, 2097151
  %some = icmp ult i64 %first, %end
  ret i1 %some
}

; Whether a cancel flag is set; null is none.
define internal i1 @told_to_stop(ptr %flag) alwaysinline {
entry:
  %some = icmp ne ptr %flag, null
  br i1 %some, label %look, label %out
look:
  %word = load atomic i64, ptr %flag monotonic, align 8
  %set = icmp ne i64 %word, 0
  br label %out
out:
  %stop = phi i1 [ false, %entry ], [ %set, %look ]
  ret i1 %stop
}

; Take chunks of the posted job until none is left. Returns how many it did. Callers take the first one, helpers (%top = 1) the last:
; in runs that follow each other a core gets the same part of the data, and finds it in its own cache.
define internal i64 @claim_chunks(ptr %pool, i64 %top) {
entry:
  %done_at = getelementptr i64, ptr %pool, i64 8
  %code_at = getelementptr i64, ptr %pool, i64 16
  %args_at = getelementptr i64, ptr %pool, i64 17
  %flag_at = getelementptr i64, ptr %pool, i64 19
  %helper = icmp ne i64 %top, 0
  %step = select i1 %helper, i64 -2097152, i64 1
  br label %look
look:
  %count = phi i64 [ 0, %entry ], [ %more, %over ], [ %count, %claim ]
  %seen = load atomic i64, ptr %pool seq_cst, align 8
  %left = call i1 @unclaimed(i64 %seen)
  br i1 %left, label %claim, label %out
claim:
  %claimed = add i64 %seen, %step
  %pair = cmpxchg ptr %pool, i64 %seen, i64 %claimed seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  %first = and i64 %seen, 2097151
  %end_shifted = lshr i64 %claimed, 21
  %last = and i64 %end_shifted, 2097151
  %chunk = select i1 %helper, i64 %last, i64 %first
  %size = lshr i64 %seen, 42
  br i1 %mine, label %work, label %look
work:                                             ; the caller waits for this chunk, so code and args are of this job
  %code = load atomic ptr, ptr %code_at seq_cst, align 8
  %args = load atomic i64, ptr %args_at seq_cst, align 8
  %flag = load atomic ptr, ptr %flag_at seq_cst, align 8
  %stopped = call i1 @told_to_stop(ptr %flag)
  br i1 %stopped, label %over, label %run
run:
  call void %code(i64 %args, i64 %chunk, i64 %size)
  br label %over
over:
  %ignored = atomicrmw add ptr %done_at, i64 1 seq_cst
  %more = add i64 %count, 1
  br label %look
out:
  ret i64 %count
}

; The processor this thread is on, -1 where the system does not say.
define internal i64 @current_cpu(ptr %pool) {
entry:
  %code_at = getelementptr i64, ptr %pool, i64 38
  %code = load ptr, ptr %code_at
  %known = icmp ne ptr %code, null
  br i1 %known, label %ask, label %out
ask:
  %number = call i32 %code()
  %wide = sext i32 %number to i64
  br label %out
out:
  %cpu = phi i64 [ -1, %entry ], [ %wide, %ask ]
  ret i64 %cpu
}

; The life of helper number %index: spin for a bounded time, then sleep until woken. Returns when the pool stops.
define void @tfjit_helper(ptr %pool, i64 %index) {
entry:
  %control = call i64 @flush_denormals()
  %stop_at = getelementptr i64, ptr %pool, i64 32
  %spin_at = getelementptr i64, ptr %pool, i64 34
  %wait_at = getelementptr i64, ptr %pool, i64 36
  %line = mul i64 %index, 8
  %base = add i64 %line, 40
  %asleep_at = getelementptr i64, ptr %pool, i64 %base
  %handle_at = getelementptr i64, ptr %asleep_at, i64 1
  %cpu_at = getelementptr i64, ptr %asleep_at, i64 2
  %wanted_at = getelementptr i64, ptr %pool, i64 18
  br label %fresh
fresh:
  %cpu = call i64 @current_cpu(ptr %pool)
  store atomic i64 %cpu, ptr %cpu_at monotonic, align 8
  %start = call i64 @ticks()
  br label %spin
spin:
  %wanted = load atomic i64, ptr %wanted_at monotonic, align 8
  %asked = icmp ult i64 %index, %wanted
  br i1 %asked, label %take_part, label %tried
take_part:
  %claimed = call i64 @claim_chunks(ptr %pool, i64 1)
  br label %tried
tried:
  %did = phi i64 [ 0, %spin ], [ %claimed, %take_part ]
  %stop = load atomic i64, ptr %stop_at seq_cst, align 8
  %stopping = icmp ne i64 %stop, 0
  br i1 %stopping, label %out, label %idle
idle:
  %worked = icmp ne i64 %did, 0
  br i1 %worked, label %fresh, label %pause
pause:
  call void @relax()
  %now = call i64 @ticks()
  %spent = sub i64 %now, %start
  %limit = load i64, ptr %spin_at
  %tired = icmp ugt i64 %spent, %limit
  br i1 %tired, label %doze, label %spin
doze:                                             ; say so first, then look once more: a caller posts first, then looks who sleeps
  store atomic i64 1, ptr %asleep_at seq_cst, align 8
  %word = load atomic i64, ptr %pool seq_cst, align 8
  %left = call i1 @unclaimed(i64 %word)
  %late_wanted = load atomic i64, ptr %wanted_at monotonic, align 8
  %late_asked = icmp ult i64 %index, %late_wanted
  %work = and i1 %left, %late_asked
  %late_stop = load atomic i64, ptr %stop_at seq_cst, align 8
  %stopped = icmp ne i64 %late_stop, 0
  %stay = or i1 %work, %stopped
  br i1 %stay, label %retract, label %sleep
retract:
  %was = atomicrmw xchg ptr %asleep_at, i64 0 seq_cst
  %unseen = icmp eq i64 %was, 1
  br i1 %unseen, label %fresh, label %sleep       ; seen: a wake-up is on its way, so take it
sleep:
  %wait = load ptr, ptr %wait_at
  %handle = load i64, ptr %handle_at
  call void %wait(i64 %handle, i64 -1)
  br label %fresh
out:
  call void @restore_control(i64 %control)
  ret void
}

; Do all chunks here, or as many as there are before the flag %stop is set.
define internal void @run_alone(ptr %code, i64 %args, i64 %size, ptr %stop) {
entry:
  br label %head
head:
  %chunk = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %chunk, %size
  br i1 %more, label %look, label %out
look:
  %stopped = call i1 @told_to_stop(ptr %stop)
  br i1 %stopped, label %out, label %body
body:
  call void %code(i64 %args, i64 %chunk, i64 %size)
  %next = add i64 %chunk, 1
  br label %head
out:
  ret void
}

; Do one job with whatever helpers take part. Another caller in the pool, or no helper to spare: all of it here.
; %others: threads beside this one that walk a table now; each has a core, which leaves so many helpers fewer.
; %stop: a flag that ends it between two chunks, or null.
; %cost: what it is predicted to take, in ticks. Sleepers are woken once the jobs that just went by without them would have paid for it.
define internal void @run_shared(ptr %pool, ptr %code, i64 %args, i64 %size, i64 %cost, i64 %others, ptr %stop) {
entry:
  %helpers_at = getelementptr i64, ptr %pool, i64 33
  %helpers = load i64, ptr %helpers_at
  %spare = sub i64 %helpers, %others
  %enough = icmp sgt i64 %spare, 0
  %several = icmp ugt i64 %size, 1
  %both = and i1 %enough, %several
  %none = xor i1 %both, true
  br i1 %none, label %alone, label %recall
recall:                                           ; a helper that lost its core lately would lose it again
  %now = call i64 @ticks()
  %shun_at = getelementptr i64, ptr %pool, i64 30
  %shun = load i64, ptr %shun_at
  %shunned = icmp ult i64 %now, %shun
  br i1 %shunned, label %alone, label %try
try:
  %lock_at = getelementptr i64, ptr %pool, i64 24
  %pair = cmpxchg ptr %lock_at, i64 0, i64 1 seq_cst seq_cst
  %got = extractvalue { i64, i1 } %pair, 1
  br i1 %got, label %post, label %alone
alone:
  call void @run_alone(ptr %code, i64 %args, i64 %size, ptr %stop)
  ret void
post:
  %done_at = getelementptr i64, ptr %pool, i64 8
  %code_at = getelementptr i64, ptr %pool, i64 16
  %args_at = getelementptr i64, ptr %pool, i64 17
  %wanted_at = getelementptr i64, ptr %pool, i64 18
  %flag_at = getelementptr i64, ptr %pool, i64 19
  %rest = sub i64 %size, 1
  %fewer = icmp slt i64 %rest, %spare
  %wanted = select i1 %fewer, i64 %rest, i64 %spare
  store atomic i64 0, ptr %done_at monotonic, align 8
  store atomic ptr %code, ptr %code_at monotonic, align 8
  store atomic i64 %args, ptr %args_at monotonic, align 8
  store atomic i64 %wanted, ptr %wanted_at monotonic, align 8
  store atomic ptr %stop, ptr %flag_at monotonic, align 8
  %number = shl i64 %size, 42
  %end_bits = shl i64 %size, 21
  %word = or i64 %number, %end_bits
  store atomic i64 %word, ptr %pool seq_cst, align 8
  %cpu = call i64 @current_cpu(ptr %pool)
  %last_at = getelementptr i64, ptr %pool, i64 27
  %missed_at = getelementptr i64, ptr %pool, i64 28
  %dear_at = getelementptr i64, ptr %pool, i64 29
  %spin_at = getelementptr i64, ptr %pool, i64 34
  %last = load i64, ptr %last_at
  %gap = sub i64 %now, %last
  %spin_limit = load i64, ptr %spin_at
  %row = icmp ult i64 %gap, %spin_limit           ; a helper that the last job had woken would be awake still
  %missed_before = load i64, ptr %missed_at
  %carried = select i1 %row, i64 %missed_before, i64 0
  %missed = add i64 %carried, %cost
  %dear = load i64, ptr %dear_at
  %pays = icmp uge i64 %missed, %dear
  %kept = select i1 %pays, i64 0, i64 %missed
  store i64 %kept, ptr %missed_at
  br label %wake
wake:
  %helper = phi i64 [ 0, %post ], [ %after, %woken ]
  %any = icmp slt i64 %helper, %wanted
  br i1 %any, label %look, label %work
look:
  %line = mul i64 %helper, 8
  %base = add i64 %line, 40
  %asleep_at = getelementptr i64, ptr %pool, i64 %base
  %asleep = load atomic i64, ptr %asleep_at seq_cst, align 8
  %sleeping = icmp eq i64 %asleep, 1
  %awake = xor i1 %sleeping, true
  %reach = or i1 %awake, %pays
  br i1 %reach, label %place, label %woken
place:
  %its_cpu_at = getelementptr i64, ptr %asleep_at, i64 2
  %its_cpu = load atomic i64, ptr %its_cpu_at monotonic, align 8
  %known = icmp sge i64 %cpu, 0
  %equal = icmp eq i64 %cpu, %its_cpu
  %stacked = and i1 %known, %equal
  br i1 %stacked, label %move, label %apart
move:                                             ; it would wait for this thread's core while others may idle
  store atomic i64 -1, ptr %its_cpu_at monotonic, align 8
  call void @move_helper(ptr %pool, ptr %asleep_at, i64 %cpu)
  br label %apart
apart:
  br i1 %sleeping, label %take, label %woken
take:
  %was = atomicrmw xchg ptr %asleep_at, i64 0 seq_cst
  %ours = icmp eq i64 %was, 1
  br i1 %ours, label %signal, label %woken
signal:
  %signal_at = getelementptr i64, ptr %pool, i64 35
  %signal_code = load ptr, ptr %signal_at
  %handle_at = getelementptr i64, ptr %asleep_at, i64 1
  %handle = load i64, ptr %handle_at
  call void %signal_code(i64 %handle, i64 1, i64 0)
  br label %woken
woken:
  %after = add i64 %helper, 1
  br label %wake
work:
  %began = call i64 @ticks()
  %own = call i64 @claim_chunks(ptr %pool, i64 0)
  %ended = call i64 @ticks()
  %worked = sub i64 %ended, %began
  %idle = icmp eq i64 %own, 0
  %share = select i1 %idle, i64 %cost, i64 %worked
  %chunks = select i1 %idle, i64 %size, i64 %own
  %each = udiv i64 %share, %chunks
  %twice = shl i64 %each, 1
  %more_at = getelementptr i64, ptr %pool, i64 31
  %more = load i64, ptr %more_at
  %patience = add i64 %twice, %more
  br label %wait
wait:                                             ; only for chunks that a helper has claimed
  %spins = phi i64 [ 0, %work ], [ %again, %relaxed ], [ 0, %yield ]
  %done = load atomic i64, ptr %done_at seq_cst, align 8
  %finished = icmp uge i64 %done, %size
  br i1 %finished, label %release, label %linger
linger:
  %long = icmp ugt i64 %spins, 1000
  br i1 %long, label %yield, label %relaxed
relaxed:
  call void @relax()
  %again = add i64 %spins, 1
  br label %wait
yield:                                            ; its helper may have lost its core: let it have this one
  %yield_at = getelementptr i64, ptr %pool, i64 37
  %yield_code = load ptr, ptr %yield_at
  call void %yield_code()
  br label %wait
release:
  %end = call i64 @ticks()
  store i64 %end, ptr %last_at
  %waited = sub i64 %end, %ended
  %stalled = icmp sgt i64 %waited, %patience
  %strikes_at = getelementptr i64, ptr %pool, i64 23
  %strikes = load i64, ptr %strikes_at
  br i1 %stalled, label %resent, label %content
resent:                                           ; do without helpers as long as that took, up to 16 times when it goes on so
  %long_time = shl i64 %waited, %strikes
  %until = add i64 %end, %long_time
  store i64 %until, ptr %shun_at
  %most = icmp uge i64 %strikes, 4
  %one_more = add i64 %strikes, 1
  %struck = select i1 %most, i64 4, i64 %one_more
  store i64 %struck, ptr %strikes_at
  br label %free
content:
  %clean = icmp eq i64 %strikes, 0
  br i1 %clean, label %free, label %forgive
forgive:
  %one_less = sub i64 %strikes, 1
  store i64 %one_less, ptr %strikes_at
  br label %free
free:
  store atomic i64 0, ptr %lock_at seq_cst, align 8
  ret void
}

; Let a helper run anywhere but on processor %cpu.
define internal void @move_helper(ptr %pool, ptr %line, i64 %cpu) {
entry:
  %rows_at = getelementptr i64, ptr %pool, i64 26
  %rows = load i64, ptr %rows_at
  %in_range = icmp ult i64 %cpu, %rows
  br i1 %in_range, label %set, label %out
set:
  %masks_at = getelementptr i64, ptr %pool, i64 25
  %masks = load ptr, ptr %masks_at
  %offset = mul i64 %cpu, $mask_bytes
  %mask = getelementptr i8, ptr %masks, i64 %offset
  %thread_at = getelementptr i64, ptr %line, i64 3
  %thread = load atomic i64, ptr %thread_at monotonic, align 8
  %number = trunc i64 %thread to i32
  %code_at = getelementptr i64, ptr %pool, i64 39
  %code = load ptr, ptr %code_at
  %ignored = call i32 %code(i32 %number, i64 $mask_bytes, ptr %mask)
  br label %out
out:
  ret void
}

; A bundle: a kernel that runs others, which do not depend on each other. Its block: status (1 once one of them has failed; theirs say
; which and how), detail, for each chunk the word where its items begin, the word where the last one's end; items: code, argument
; block, chunk, chunks. A chunk stops at an item that fails.
define void @tfjit_bundle(i64 %args, i64 %chunk, i64 %nchunks) {
entry:
  %block = inttoptr i64 %args to ptr
  %place = add i64 %chunk, 2
  %start_at = getelementptr i64, ptr %block, i64 %place
  %end_at = getelementptr i64, ptr %start_at, i64 1
  %start = load i64, ptr %start_at
  %end = load i64, ptr %end_at
  br label %head
head:
  %item = phi i64 [ %start, %entry ], [ %next, %run ]
  %more = icmp ult i64 %item, %end
  br i1 %more, label %run, label %out
run:
  %code_at = getelementptr i64, ptr %block, i64 %item
  %args_at = getelementptr i64, ptr %code_at, i64 1
  %chunk_at = getelementptr i64, ptr %code_at, i64 2
  %size_at = getelementptr i64, ptr %code_at, i64 3
  %code = load ptr, ptr %code_at
  %its_args = load i64, ptr %args_at
  %its_chunk = load i64, ptr %chunk_at
  %its_size = load i64, ptr %size_at
  call void %code(i64 %its_args, i64 %its_chunk, i64 %its_size)
  %status_at = inttoptr i64 %its_args to ptr
  %status = load atomic i64, ptr %status_at monotonic, align 8
  %good = icmp eq i64 %status, 0
  %next = add i64 %item, 4
  br i1 %good, label %head, label %failed
failed:
  store atomic i64 1, ptr %block monotonic, align 8
  br label %out
out:
  ret void
}

@walking = internal global i64 0, align 64        ; threads that run compiled code without the GIL

define void @tfjit_run(ptr %pool, ptr %code, i64 %args, i64 %size) {
  %control = call i64 @flush_denormals()
  %others = atomicrmw add ptr @walking, i64 1 monotonic
  call void @run_shared(ptr %pool, ptr %code, i64 %args, i64 %size, i64 4611686018427387904, i64 %others, ptr null)
  %ignored = atomicrmw sub ptr @walking, i64 1 monotonic
  call void @restore_control(i64 %control)
  ret void
}
"""

POOL: Final = Template(_TEXT).substitute(mask_bytes=MASK_BYTES)
