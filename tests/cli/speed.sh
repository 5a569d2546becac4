#!/usr/bin/env bash
# scripts/speed, with recorded measurements: which ratios it calls slower, that
# the best of several tries counts, and its errors.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip 'there is no python3'
speed=$root/scripts/speed

# A program that prints measurements: the N-th try has the N-th time of a pass of
# one row, or the last one.
cat >"$tmp/tandem" <<'END'
#!/usr/bin/env bash
case $1-$2 in
synth-*) exit 0 ;;
bench-ipc) echo '{"ratio":2.5}' ;;
bench-decode)
  echo try >>"$TRIES"
  read -ra pass <<<"$PASSES"
  n=$(wc -l <"$TRIES")
  [ "$n" -le ${#pass[@]} ] || n=${#pass[@]}
  awk -v s="${pass[n - 1]}" 'BEGIN {
    printf "{\"rows\":[{\"what\":\"prompt\",\"rows\":512,\"of_int8\":0.6}," \
      "{\"what\":\"pass\",\"rows\":1,\"tokens_per_s\":%g,\"of_memory\":%g}," \
      "{\"what\":\"pass\",\"rows\":8,\"tokens_per_s\":300}]," \
      "\"pair_to_one_process\":%g}\n", 1 / s, 0.006 / s, s / 0.01 }'
  ;;
*) exit 1 ;;
esac
END
chmod +x "$tmp/tandem"
export TRIES=$tmp/tries PASSES
# measured PASSES ARGS...
measured() {
  PASSES=$1
  rm -f "$TRIES"
  TANDEM=$tmp/tandem run "$speed" "${@:2}"
}

measured 0.01
check_eq 'status of a machine as usual' "$status" 0
check_eq 'tries' "$(wc -l <"$TRIES")" 1
check_eq 'ratios' "$(awk '{ print $1, $2 }' <<<"$out" | paste -sd,)" \
  'ok pair,ok rows,ok memory,ok arithmetic,ok ring'
measured 0.03
check_eq 'status of a slower pass' "$status" 1
check_eq 'tries of a slower pass' "$(wc -l <"$TRIES")" 3
check_has 'what became slower' "$err" 'slower than its bound: pair, memory'
check_has 'the line of it' "$out" 'SLOW pair        3.00 (<= 1.2)'
measured '0.03 0.01'
check_eq 'status if only the first try is slow' "$status" 0
check_eq 'tries if only the first is slow' "$(wc -l <"$TRIES")" 2
measured '0.03 0.01' --tries 1
check_eq 'status of one try' "$status" 1
measured 0.01 --bound ring=2 --tries 2
check_has 'a lower bound' "$err" 'slower than its bound: ring'

for wrong in '--bound' '--bound pair' '--bound pair=x' '--bound none=1' \
  '--tries 0' '--tries x' '--no-such-option'; do
  # shellcheck disable=SC2086 # words
  run "$speed" $wrong
  check_eq "status of $wrong" "$status" 2
  check_has "stderr of $wrong" "$err" 'see scripts/speed --help'
done
TANDEM=false run "$speed"
check_has 'without measurements' "$err" 'synth --like failed'
finish
