# A JSON object as lines "path value", lists of plain numbers on one line:
#
#   awk [-v wall=REGEX] -f scripts/json-lines.awk
#
# Numbers whose path matches `wall`, because this machine's clock measured
# them, read WALL. What stands under `phone`, or ends in phone_ps or phone_pj,
# is another clock's, exact, and stays.
function put(value,    path, i) {
	for (i = 1; i <= depth; i++)
		path = path (i > 1 ? "." : "") name[i]
	if (wall != "" && path !~ /(^|\.)phone\./ && path !~ /phone_p[sj]$/ &&
	    value ~ /^-?[0-9]/ && path ~ wall)
		value = "WALL"
	print path " " value
}

function next_item() {
	if (depth && is_list[depth])
		name[depth] = "[" count[depth]++ "]"
}

{
	rest = $0
	depth = 0
	while (length(rest)) {
		first = substr(rest, 1, 1)
		if (first ~ /[ ,:]/) {
			rest = substr(rest, 2)
		} else if (depth && !is_list[depth] &&
			   match(rest, /^"([^"\\]|\\.)*":/)) {
			name[depth] = substr(rest, 2, RLENGTH - 3)
			rest = substr(rest, RLENGTH + 1)
		} else if (match(rest, /^\[[^][{}"]*\]/) ||
			   match(rest, /^\{\}/) ||
			   match(rest, /^"([^"\\]|\\.)*"/) ||
			   match(rest, /^[-+.a-zA-Z0-9]+/)) {
			len = RLENGTH
			next_item()
			put(substr(rest, 1, len))
			rest = substr(rest, len + 1)
		} else if (first == "[" || first == "{") {
			next_item()
			depth++
			is_list[depth] = first == "["
			count[depth] = 0
			rest = substr(rest, 2)
		} else if (first == "]" || first == "}") {
			depth--
			rest = substr(rest, 2)
		} else {
			print "not JSON: " rest
			break
		}
	}
}
