#!/usr/bin/env bash
# tandem convert: an image generates the same text as its model file, and as a
# GGUF file of the same types; the loss is reported, and no partial image is
# left; tandem verify finds damage.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf image=$tmp/tiny.tdm
run_ok "$TANDEM" synth --like tiny --quant q8_0 -o "$model"

# said OPTION...: ids, text and hash of a run.
said() {
  run_ok "$TANDEM" run -p 'Hello world' -n 12 -t 1 --spin 0 --json "$@"
  said="$(json ids) $(json text) $(json logits_hash)"
  check_has "the output of a run with $*" "$said" '] "'
}

# ---- the same as the model file --------------------------------------------
seq 5 60 >"$tmp/ids"
hashes=
for layout in rows tiles groups super; do
  for more in '' '--zstd 3'; do
    # shellcheck disable=SC2086 # words
    run_ok "$TANDEM" convert "$model" "$image" --layout $layout $more
    check_eq "stdout of convert --layout $layout" "$out$err" ''
    said -m "$model" --layout $layout
    want=$said
    said -m "$image"
    check_eq "a run of the image, $layout $more" "$said" "$want"
  done
  said -m "$image" --layout $layout -t 2 --va-window 16M
  check_eq "the image in a small window, $layout" "$said" "$want"
  hashes+="$(json logits_hash) "

  run_ok "$TANDEM" logits -m "$model" --ids-file "$tmp/ids" -o "$tmp/want" \
    --layout $layout
  run_ok "$TANDEM" logits -m "$image" --ids-file "$tmp/ids" -o "$tmp/got"
  checks=$((checks + 1))
  cmp -s "$tmp/got" "$tmp/want" || fail "logits of the image, $layout"
done
check_eq 'layouts that compute something else' \
  "$(tr ' ' '\n' <<<"$hashes" | sort -u | grep -c .)" 3

for other in rows tiles groups; do
  run "$TANDEM" run -m "$image" -p x --layout $other
  check_eq "status with --layout $other of an image in super" "$status" 1
  check_has stderr "$err" "does not match the flash image: its layout is super"
done

# Wherever a model file is taken.
run_ok "$TANDEM" tokenize -m "$model" -p 'Hello world'
want=$out
run_ok "$TANDEM" tokenize -m "$image" -p 'Hello world'
check_eq 'tokens by the image' "$out" "$want"
printf '{"id":"a-0","prompt":"A dog","answer":"x","check":"text",' \
  >"$tmp/a.jsonl"
echo '"facts":[],"level":0}' >>"$tmp/a.jsonl"
run_ok "$TANDEM" convert "$model" "$image"
run_ok "$TANDEM" eval "$tmp/a.jsonl" -m "$model" -n 5 --json
want=$(json logits_hash)
run_ok "$TANDEM" eval "$tmp/a.jsonl" -m "$image" -n 5 --json
is 'hash of an evaluation by the image' logits_hash "$want"
said -m "$model" --method chain --draft "$model"
want=$said
said -m "$image" --method chain --draft "$image"
check_eq 'a chain by images' "$said" "$want"

# A diffusion model, and one with 4 bits in the file.
run_ok "$TANDEM" synth --like tiny-llada -o "$tmp/llada.gguf"
run_ok "$TANDEM" convert "$tmp/llada.gguf" "$tmp/llada.tdm" --layout groups
said -m "$tmp/llada.gguf" --method llada --layout groups
want=$said
said -m "$tmp/llada.tdm" --method llada
check_eq 'a diffusion model in an image' "$said" "$want"

misuse "$TANDEM" convert --per-channel "$model" "$image"
check_has 'an image of rounded weights' "$err" '--per-channel writes a model file'
misuse "$TANDEM" convert --per-channel --type q4_0 "$model" "$tmp/x.gguf"
run_ok "$TANDEM" convert --per-channel --report "$model" "$tmp/rounded.gguf"
check_eq 'matrices rounded to 4 bits per channel' "$(grep -c ' f16 ' <<<"$out")" 28
said -m "$tmp/rounded.gguf"

# ---- other types, and their losses ------------------------------------------
run_ok "$TANDEM" synth --like tiny --quant f16 -o "$tmp/f16.gguf"
run_ok "$TANDEM" convert "$tmp/f16.gguf" "$image" --layout super --type q4_0 \
  --report
check_eq 'matrices of 4 bits' "$(grep -c ' super-q4_0 ' <<<"$out")" 24
check_eq 'matrices of 8 bits' "$(grep -c ' super-q8_0 ' <<<"$out")" 4
check_has 'the report' "$out" '29 matrices'
check_has 'the report' "$out" 'worse than conventional groups by more'
checks=$((checks + 1))
awk '$3 == "super-q4_0" { n++; bad += $4 < .07 || $4 > .1 || $5 < .07 ||
      $5 > .1 || $6 - $4 / $5 > .001 || $4 / $5 - $6 > .001 }
    $3 == "super-q8_0" { n++; bad += $4 < .003 || $4 > .008 || $6 > 1.05 }
    END { exit bad || n != 28 }' <<<"$out" || fail "figures of: $out"
said -m "$image"
run_ok "$TANDEM" convert "$tmp/f16.gguf" "$image" --layout super --type q4_0 \
  --down q8_0 --json
is 'extents' extents 7
is 'command' command '"convert"'
is 'worse' worse 0
check_has 'JSON' "$out" '"from":"f16","to":"super-q8_0"'
is 'bytes' bytes "$(stat -c %s "$image")"

# Types whose codes are looked up: super-groups keep the table of the type, and a
# GGUF file generates the text of an image in tiles. GGUF has no nf4 and no fp4.
for t in iq4_nl nf4 fp4 mxfp4; do
  super=super-${t/mx/}
  run_ok "$TANDEM" convert "$tmp/f16.gguf" "$image" --layout super --type $t \
    --report
  check_eq "matrices in $super" "$(grep -c " f16 *$super " <<<"$out")" 24
  check_eq "FFN down matrices beside $t" "$(grep -c ' super-q8_0 ' <<<"$out")" 4
  run_ok "$TANDEM" inspect "$image"
  check_eq "inspect: $super" "$(grep -c " f16 *$super " <<<"$out")" 24
  run_ok "$TANDEM" verify "$image"
  said -m "$image" --precision npu
done
for t in iq4_nl mxfp4; do
  run_ok "$TANDEM" convert "$tmp/f16.gguf" "$image" --type $t
  run_ok "$TANDEM" convert "$tmp/f16.gguf" "$tmp/t.gguf" --type $t
  run_ok "$TANDEM" inspect "$tmp/t.gguf"
  check_eq "matrices of $t" "$(grep -c "weight *$t " <<<"$out")" 24
  said -m "$image"
  want=$said
  said -m "$tmp/t.gguf"
  check_eq "a run of a GGUF file of $t" "$said" "$want"
done
for option in '--type nf4' '--down fp4'; do
  # shellcheck disable=SC2086 # words
  run "$TANDEM" convert $option "$tmp/f16.gguf" "$tmp/none.gguf"
  check_eq "status of $option for a GGUF file" "$status" 2
  check_has stderr "$err" "GGUF files have no type ${option#* }"
done

# A GGUF file of other types: its ids are those of an image of these types.
run_ok "$TANDEM" convert --type q4_0 "$tmp/f16.gguf" "$image"
run_ok "$TANDEM" convert --type q4_0 "$tmp/f16.gguf" "$tmp/q4.gguf" --report
check_eq 'matrices of 4 bits' "$(grep -c ' f16 *q4_0 ' <<<"$out")" 24
check_has 'the report' "$out" '28 matrices'
check_has 'the report' "$out" "q4.gguf: $(awk -v n="$(stat -c %s \
  "$tmp/q4.gguf")" 'BEGIN { printf "%.1f", n / 1048576 }') MiB; the model file"
said -m "$image"
want=$said
said -m "$tmp/q4.gguf"
check_eq 'a run of a GGUF file of 4 bits' "$said" "$want"
run_ok "$TANDEM" eval "$tmp/a.jsonl" -m "$image" -n 5 --json
want=$(json logits_hash)
run_ok "$TANDEM" eval "$tmp/a.jsonl" -m "$tmp/q4.gguf" -n 5 --json
is 'hash of an evaluation' logits_hash "$want"
run_ok "$TANDEM" inspect "$tmp/q4.gguf"
check_eq 'matrices of 8 bits' "$(grep -c 'ffn_down.weight *q8_0' <<<"$out")" 4
check_has 'inspect' "$out" 'file_type                        u32             2'
keys() { sed -n '/^keys/,/^$/p' <<<"$out" | grep -v file_type | sort; }
want=$(keys)
run_ok "$TANDEM" inspect "$tmp/f16.gguf"
check_eq 'the other keys' "$want" "$(keys)"
run_ok "$TANDEM" convert --down q8_0 "$tmp/f16.gguf" "$tmp/q4.gguf" --json
is 'layout' layout null
is 'extents' extents 0
is 'bytes' bytes "$(stat -c %s "$tmp/q4.gguf")"

# The file has these groups already: tile groups can only be worse.
run_ok "$TANDEM" convert "$model" "$image" --layout groups --report
check_has 'the report' "$out" '29 worse than conventional groups'
check_has 'the report' "$out" 'inf  worse than conventional groups'
check_has 'the report' "$out" 'a file with more bits'
run_ok "$TANDEM" convert "$model" "$image" --layout groups --json
is 'worse' worse 29
is 'largest_ratio' largest_ratio null
# Tiles lose nothing.
run_ok "$TANDEM" convert "$model" "$image" --report
check_eq 'matrices that lost something' \
  "$(awk '/tile-/ && $4 != "0.000000"' <<<"$out")" ''
check_lacks 'the report' "$out" conventional\ groups

# ---- contents ---------------------------------------------------------------
run_ok "$TANDEM" inspect "$image"
check_has 'inspect' "$out" 'flash image version 2'
check_has 'inspect' "$out" 'layout        tiles'
check_has 'inspect' "$out" 'architecture  llama'
check_has 'inspect' "$out" 'blk.3.ffn_down.weight'
check_eq 'layers' "$(grep -c '^  layer [0-9]* .* raw ' <<<"$out")" 4
run_ok "$TANDEM" inspect --json "$image"
is 'format' format '"flash image"'
is 'layout' layout '"tiles"'
run_ok "$TANDEM" verify "$image"
check_has 'verify' "$out" 'all as written'

# damage OFFSET FILE: a byte becomes another.
damage() {
  local byte
  byte=$(od -An -tu1 -j "$1" -N 1 "$2")
  # shellcheck disable=SC2059 # an octal escape
  printf "\\$(printf %o $((byte ^ 1)))" |
    dd of="$2" bs=1 seek="$1" conv=notrunc status=none
}
run_ok "$TANDEM" inspect "$image"
at=$(awk '/^  layer 2 / { print $3 }' <<<"$out")
cp "$image" "$tmp/bad.tdm"
damage $((at + 4321)) "$tmp/bad.tdm"
run "$TANDEM" verify "$tmp/bad.tdm"
check_eq 'status of verify' "$status" 1
check_has 'stderr of verify' "$err" 'layer 2: checksum'
check_has 'stderr of verify' "$err" '1 of 7 extents damaged'
check_lacks 'stderr of verify' "$err" 'layer 1'
run "$TANDEM" run -m "$tmp/bad.tdm" -p x -n 2
check_eq 'status of a run' "$status" 1
check_has 'stderr of a run' "$err" 'layer 2: checksum'
damage 4100 "$tmp/bad.tdm"
run "$TANDEM" verify "$tmp/bad.tdm"
check_eq 'status with a damaged table' "$status" 1
check_has stderr "$err" 'table of extents: checksum'
head -c 100000 "$image" >"$tmp/short.tdm"
for command in verify inspect 'run -p x -m'; do
  # shellcheck disable=SC2086 # words
  run "$TANDEM" $command "$tmp/short.tdm"
  check_eq "status of $command, cut short" "$status" 1
  check_has stderr "$err" 'is it truncated?'
done
run "$TANDEM" verify "$model"
check_eq 'status of verify of a model file' "$status" 1
check_has stderr "$err" 'not a flash image'

# ---- errors -----------------------------------------------------------------
misuse "$TANDEM" convert
misuse "$TANDEM" convert "$model"
misuse "$TANDEM" convert "$model" -
misuse "$TANDEM" convert "$model" "$tmp/x" --type q5_0
misuse "$TANDEM" convert "$model" "$tmp/x" --zstd 0
misuse "$TANDEM" convert "$model" "$tmp/x" --zstd 20
misuse "$TANDEM" convert "$model" "$tmp/x.gguf"
check_has stderr "$err" 'would be a copy of the model file'
misuse "$TANDEM" convert "$model" "$tmp/x.gguf" --type q4_0 --layout super
check_has stderr "$err" '--layout is only for flash images'
misuse "$TANDEM" convert "$model" "$tmp/x.gguf" --type q4_0 --zstd 3
check_has stderr "$err" '--zstd is only for flash images'
misuse "$TANDEM" verify
refuse() { # SAYS COMMAND...
  local says=$1
  shift
  run "$TANDEM" "$@"
  check_eq "status of: $*" "$status" 1
  check_has "stderr of: $*" "$err" "$says"
}
refuse 'already a flash image' convert "$image" "$tmp/x"
refuse 'overwrite the model file' convert "$model" "$model" --type q4_0
refuse none convert "$tmp/none" "$tmp/x"
refuse no/such convert "$model" "$tmp/no/such"
refuse 'not a regular file' convert "$model" /dev/full
check_eq 'files left by refusals' "$(ls "$tmp"/x* "$tmp"/*.tmp 2>/dev/null)" ''

# ---- there whole or not at all --------------------------------------------------
mkdir "$tmp/disk"
run unshare -m sh -c 'mount -t tmpfs -o size=512k tmpfs "$2" || exit 99
  echo old >"$2/out.tdm"
  "$TANDEM" convert "$1" "$2/out.tdm"
  status=$?
  ls "$2"
  cat "$2/out.tdm"
  exit $status' sh "$model" "$tmp/disk"
case $status:$err in
99:* | 127:* | *unshare:*) echo "not checked: a full disk: $err" ;;
*)
  check_eq 'status on a full disk' "$status" 1
  check_has 'stderr on a full disk' "$err" 'the disk was full after'
  check_eq 'files on the disk, and the one that was there' "$out" \
    $'out.tdm\nold'
  ;;
esac

# ended SIGNAL STATUS SAYS COMMAND...: by that signal while the file is open; as
# large as takes a while to compress.
ended() {
  local signal=$1 want=$2 says=$3 pid
  shift 3
  "$@" env --default-signal=INT,TERM,HUP "$TANDEM" convert \
    flash/models/target.gguf "$tmp/disk/out.tdm" --zstd 19 \
    >"$tmp/out" 2>"$tmp/err" &
  pid=$!
  for _ in $(seq 600); do
    ! ls -l "/proc/$pid/fd" 2>/dev/null | grep -qF "$tmp/disk/" || break
    sleep 0.05
  done
  kill "-$signal" $pid
  status=0
  wait $pid 2>/dev/null || status=$?
  check_eq "status after SIG$signal" "$status" "$want"
  check_has "stderr after SIG$signal" "$(cat "$tmp/err")" "$says"
  check_eq "files after SIG$signal" "$(ls "$tmp/disk")" ''
}
ended INT 130 interrupted
ended TERM 143 interrupted
ended HUP 129 interrupted
ended KILL 137 ''
# Without /proc a file needs a name from the start. (A sanitizer needs it, too.)
if ! sanitized && unshare -m true 2>/dev/null; then
  ended TERM 143 interrupted unshare -m sh -c \
    'mount -t tmpfs tmpfs /proc && exec "$@"' sh
else
  echo 'not checked: a file that needs a name from the start'
fi
run bash -c 'ulimit -f 64; exec "$@"' bash "$TANDEM" convert "$model" \
  "$tmp/disk/out.tdm"
check_eq 'status with a limit on files' "$status" 1
check_has 'stderr with a limit on files' "$err" 'File too large'
check_eq 'files with a limit on files' "$(ls "$tmp/disk")" ''
finish
