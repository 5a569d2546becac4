# Tells how host and device talked, from both of their straces merged in order
# of time, each line with its side in front (scripts/strace-pair does that):
#
#   host PID SECONDS call(...) = result
#
# Variable: shown, the tokens to list. Portable awk: no gawk is needed.

# -- numbers and strings as strace prints them --------------------------------
function hex(s,   i, v) {
  v = 0
  s = tolower(s)
  for (i = 3; i <= length(s); i++)
    v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
  return v
}
function size(n) {
  if (n < 1024) return n " bytes"
  if (n < 1048576) return sprintf("%.4g KiB", n / 1024)
  if (n < 1073741824) return sprintf("%.4g MiB", n / 1048576)
  return sprintf("%.4g GiB", n / 1073741824)
}
# The bytes of the string that starts after the first quote of s: B[1..].
function bytes(s,   i, k, c, n, v) {
  n = 0
  for (i = index(s, "\"") + 1; i <= length(s); i++) {
    c = substr(s, i, 1)
    if (c == "\"") break
    if (c != "\\") { B[++n] = ord[c]; continue }
    c = substr(s, ++i, 1)
    if (c ~ /[0-7]/) {
      for (v = k = 0; k < 3 && c ~ /[0-7]/; k++) {
        v = v * 8 + c
        c = substr(s, ++i, 1)
      }
      i--
      B[++n] = v
    } else if (c in escape) B[++n] = escape[c]
    else B[++n] = ord[c]
  }
  return n
}
function u32(at) { # little-endian, at byte offset
  return B[at + 1] + 256 * (B[at + 2] + 256 * (B[at + 3] + 256 * B[at + 4]))
}
function u64(at) { return size(u32(at) + 4294967296 * u32(at + 4)) }
function text(at, most,   i, s) {
  for (i = at + 1; i <= at + most && B[i]; i++) s = s sprintf("%c", B[i])
  return s
}
# The quoted string of a call, as strace wrote it.
function quoted(s) {
  if (!match(s, /"([^"\\]|\\.)*"/)) return ""
  return substr(s, RSTART, RLENGTH)
}
# "tandem:kv" from 7</memfd:tandem:kv>(deleted); any other text unchanged.
function fd_name(s) {
  if (match(s, /\/memfd:[^ >]*/))
    return substr(s, RSTART + 7, RLENGTH - 7)
  if (s ~ /eventfd/) return "an eventfd"
  if (s ~ /UNIX-STREAM/) return "a socket"
  return s
}

# -- telling ------------------------------------------------------------------
function ms(t) { return sprintf("%9.1f", (t - t0) * 1000) }
function tell(who, what) {
  if (in_table && n_token > shown) return
  printf "%s  %-7s %s\n", ms(now), who, what
}
function and_also(what) { printf "%20s%s\n", "", what }
function heading(s) { printf "\n%s\n", s }
function columns(indent) {
  printf "%*s    host  device  device    host    host  device\n", indent, ""
  printf "%*s   rings   hears   rings   hears  sleeps  sleeps\n", indent, ""
}

# -- phases -------------------------------------------------------------------
# Doorbells are counted into row[] and given to a phase when it is known which:
# 1 set-up and prompt (all up to the first text), 2 tokens, 3 after the last.
function count(what) { row[what]++ }
function give_to(phase,   i) {
  for (i = 1; i <= n_col; i++) {
    n[phase, col[i]] += row[col[i]]
    row[col[i]] = 0
  }
}
function counts(   i, s) {
  for (i = 1; i <= n_col; i++) s = s sprintf(" %7d", row[col[i]])
  return s
}
function token(t, s) {
  if (!n_token++) {
    heading("Up to each text, since the one before (first: since the start)")
    columns(31)
    in_table = 1
  }
  if (n_token <= shown)
    printf "%s  %-20.20s%s\n", ms(t), n_token " " quoted(s), counts()
  give_to(n_token == 1 ? 1 : 2)
}
# A newline is held back: one that nothing follows only ends the line.
function text_written(s,   i, since) {
  if (held != "") {
    for (i = 1; i <= n_col; i++) {
      since = row[col[i]]
      row[col[i]] = held_row[i]
      held_row[i] = since
    }
    token(held_at, held)
    held = ""
    for (i = 1; i <= n_col; i++) row[col[i]] += held_row[i]
  }
  if (quoted(s) != "\"\\n\"") {
    token(now, s)
    return
  }
  held = s
  held_at = now
  for (i = 1; i <= n_col; i++) held_row[i] = row[col[i]]
  for (i = 1; i <= n_col; i++) row[col[i]] = 0
}
function drop_held(   i) {
  for (i = 1; held != "" && i <= n_col; i++) row[col[i]] += held_row[i]
  held = ""
}
function end_table() {
  if (!in_table) return
  in_table = 0
  if (n_token > shown)
    printf "%11s%d more; -a shows them\n", "", n_token - shown
  heading("The end")
}

# -- the socket ---------------------------------------------------------------
# The descriptors of a message; eventfds among them are doorbells.
function passed(s,   list, k, i, r) {
  if (!match(s, /cmsg_data=\[[^;]*\]\}/)) return ""
  s = substr(s, RSTART + 11, RLENGTH - 13)
  k = split(s, list, ", ")
  for (i = 1; i <= k; i++) {
    r = r (i > 1 ? ", " : "") fd_name(list[i])
    if (list[i] ~ /eventfd/) bell[side, list[i] + 0] = 1
  }
  return r
}
function hello(fds) {
  tell(side, "-> device: hello, protocol " u32(8) ", window " u64(32) " in " \
    u32(28) " slots,")
  and_also("doorbell " bell_name[u32(16)] ", coherence " \
    coherence_name[u32(20)] ", spin " u32(48) " us;")
  and_also("descriptors: " fds)
}
function welcome() {
  if (u32(12)) tell(side, "-> host: refused: " text(48, 200))
  else tell(side, "-> host: welcome, " u32(16) " thread" \
    (u32(16) == 1 ? "" : "s") ", " text(32, 16) " kernels")
}
function share() {
  n_share++
  tell(side, "-> device: buffer " u32(4) ", " text(24, 32) ", " u64(16) \
    (u32(12) % 2 ? ", by DMA only" : ""))
}
function link_message(s, sent,   op, fds) {
  bytes(substr(s, index(s, "iov_base=")))
  fds = passed(s)
  op = u32(0)
  if (!sent) {
    # Messages are described at the sender; only events that this end alone
    # sees are described here.
    if (op == 1) tell(side, "<- host: hello; descriptors: " fds)
    if (op == 3) n_taken++
  } else if (op == 1) hello(fds)
  else if (op == 2) welcome()
  else if (op == 3) share()
  else if (op == 4) {
    end_table()
    tell(side, "-> device: goodbye")
  }
}

# -- the window ---------------------------------------------------------------
# Which reservation is the window shows when a buffer is mapped inside one.
# It begins at the next multiple of 2 MiB.
function reserved(s, len) {
  if (!match(s, /= 0x[0-9a-f]+/)) return
  res_at[++n_res] = hex(substr(s, RSTART + 2, RLENGTH - 2))
  res_len[n_res] = len
}
function find_window(at) {
  for (; n_res; n_res--)
    if (at >= res_at[n_res] && at < res_at[n_res] + res_len[n_res])
      window_base = int((res_at[n_res] + 2097151) / 2097152) * 2097152
}
# In the device, address a is 3 * a, and a buffer that fills a huge page is at
# the next multiple of 2 MiB (device/window.h). A large one is at the first
# hole in which it fits.
function seen_at(a, len) {
  return len < 2097152 ? 3 * a : int((3 * a + 2097151) / 2097152) * 2097152
}
function address(at, len,   a, u, moved) {
  if (at in window_at) return window_at[at]
  for (a = 4096; a <= at / 3; a = moved) {
    moved = 0
    for (u in span)
      if (u + span[u] + 4096 > a && u - 4096 < a + len && u + span[u] > moved)
        moved = u + span[u]
    if (!moved && seen_at(a, len) == at) return a
    if (!moved) break
    moved += 4096
  }
  return int(at / 3 / 4096) * 4096
}
function into_window(seen, s, a,   at) {
  find_window(seen)
  seen -= window_base
  at = address(seen, a[2] + 0)
  if (a[3] != "PROT_NONE") {
    window_at[seen] = at
    span[at] = a[2] + 0
    window[at] = fd_name(a[5])
    n_map++
    tell(side, sprintf("maps 0x%08x %s, %s%s", at, window[at], size(a[2]),
      s ~ /= -1 / ? ": refused" : ""))
  } else if (seen in window_at) {
    tell(side, sprintf("unmaps 0x%08x %s", at, window[at]))
    delete window_at[seen]
    delete span[at]
    n_unmap++
  }
}
function mapped(s,   a) {
  split(substr(s, index(s, "(") + 1), a, ", ")
  if (side == "device" && s ~ /MAP_FIXED/ &&
      (s ~ /MAP_SHARED.*memfd:/ || s ~ /PROT_NONE.*MAP_NORESERVE/))
    into_window(hex(a[1]), s, a)
  else if (a[3] == "PROT_NONE" && s ~ /MAP_NORESERVE/)
    reserved(s, a[2] + 0)
  else if (fd_name(a[5]) == "tandem:ctrl" && match(s, /= 0x[0-9a-f]+/)) {
    ctrl_at[side] = hex(substr(s, RSTART + 2, RLENGTH - 2))
    ctrl_len[side] = a[2] + 0
  }
}

# -- one call -----------------------------------------------------------------
function is_bell(s,   fd) {
  fd = substr(s, index(s, "(") + 1) + 0
  return s ~ /^[a-z]+\([0-9]+<UNIX-STREAM/ || (side, fd) in bell
}
function polls_bell(s,   fd) {
  if (!match(s, /\{fd=[0-9]+/)) return 0
  fd = substr(s, RSTART + 4, RLENGTH - 4) + 0
  return (side, fd) in bell || s ~ /^p?poll\(\[\{fd=[0-9]+<UNIX-STREAM/
}
# Only those on a word of the control memfd; others are between threads.
function futex(s,   at) {
  at = hex(substr(s, 7, index(s, ",") - 7))
  if (at < ctrl_at[side] || at >= ctrl_at[side] + ctrl_len[side]) return
  if (s ~ /FUTEX_WAKE/) count(side " rings")
  else if (s ~ /FUTEX_WAIT/ && s !~ /EAGAIN/) {
    count(side " sleeps")
    if (s !~ /ETIMEDOUT/) count(side " hears")
  }
}
function call(s,   part) {
  if (s ~ /^ftruncate\(.*memfd:/) {
    split(s, part, ", ")
    tell(side, "creates " fd_name(part[1]) ", " size(part[2] + 0))
    n_memfd++
  } else if (s ~ /^mmap\(/) mapped(s)
  else if (s ~ /^bind\(.*sun_path/) tell(side, "listens at its socket")
  else if (s ~ /^connect\(.*sun_path.*= 0$/)
    tell(side, "connects to the device")
  else if (s ~ /^seccomp\(SECCOMP_SET_MODE_FILTER.*= 0$/)
    tell(side, "confines itself with a seccomp filter")
  else if (s ~ /^(send|recv)msg\(.*iov_base=/ && s !~ /= -1 /)
    link_message(s, s ~ /^send/)
  else if (s ~ /^futex\(/) futex(s)
  else if (s ~ /^write\(1</ && side == "host") text_written(s)
  else if (s ~ /^(write|sendto)\(/ && is_bell(s)) count(side " rings")
  else if (s ~ /^(read|preadv2|recvfrom)\(/ && is_bell(s)) {
    if (s !~ /EAGAIN/) count(side " hears")
  } else if (s ~ /^p?poll\(/ && s !~ /, 0\) += / && polls_bell(s))
    count(side " sleeps")
}

BEGIN {
  for (i = 1; i < 256; i++) ord[sprintf("%c", i)] = i
  escape["n"] = 10; escape["t"] = 9; escape["r"] = 13
  escape["v"] = 11; escape["f"] = 12
  bell_name[0] = "poll"; bell_name[1] = "eventfd"; bell_name[2] = "socket"
  coherence_name[0] = "off"; coherence_name[1] = "strict"
  coherence_name[2] = "check"
  n_col = split("host rings,device hears,device rings,host hears," \
    "host sleeps,device sleeps", col, ",")
  print "       ms  who     what"
}
{
  side = $1
  now = $3 + 0
  if (!t0) t0 = now
  line = substr($0, index($0, $3) + length($3) + 1)
}
line ~ /<unfinished \.\.\.>$/ {
  sub(/ *<unfinished \.\.\.>$/, "", line)
  pending[side, $2] = line
  next
}
line ~ /^<\.\.\. [a-z0-9_]+ resumed>/ {
  sub(/^<\.\.\. [a-z0-9_]+ resumed>/, "", line)
  line = pending[side, $2] line
  delete pending[side, $2]
}
line ~ /^execve\(/ && !started[side]++ {
  main_pid[side] = $2
  tell(side, "starts, pid " $2)
  next
}
line ~ /^\+\+\+ / {
  if ($2 != main_pid[side]) next # a thread
  end_table()
  gsub(/^\+\+\+ | \+\+\+$/, "", line)
  tell(side, line)
  next
}
line ~ /^--- SIG(KILL|TERM|INT|SEGV|BUS|ABRT|SYS)/ {
  split(line, part, " ")
  tell(side, "gets " part[2])
  next
}
{ total[side]++; call(line) }

function total_row(name, phase, by,   i, s) {
  s = sprintf("%-22s", name)
  for (i = 1; i <= n_col; i++)
    s = s sprintf(by > 1 ? " %7.1f" : " %7d", n[phase, col[i]] / by)
  print s
}
END {
  if (!t0) { print "the traces are empty"; exit 1 }
  drop_held()
  give_to(n_token ? 3 : 1)
  heading("Totals")
  columns(22)
  total_row(n_token ? "up to the first text" : "in all", 1, 1)
  if (n_token > 1) {
    total_row("up to the last text", 2, 1)
    total_row("  each of " n_token - 1, 2, n_token - 1)
  }
  if (n_token) total_row("after it", 3, 1)
  printf "\n%d memfds, %d buffers shared, %d received, %d maps, %d unmaps\n", \
    n_memfd, n_share, n_taken, n_map, n_unmap
  printf "system calls traced: host %d, device %d\n", total["host"], \
    total["device"]
}
