#!/usr/bin/env bash
# Distribution: the tarball of all tracked files, and the installation. Debian
# packages take minutes to build: scripts/try-deb builds and tries them.
. "$(dirname "$0")/lib.sh"

need_plain_build
build=$(dirname "$TANDEM")
unset MAKEFLAGS MFLAGS MAKELEVEL
# shellcheck disable=SC2154 # of lib.sh
version=$("$TANDEM" --version | sed 's/tandem //')

# ---- the tarball -----------------------------------------------------------
if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
  dist() { # FOLDER
    run_ok make -s dist DIST="$1"
    check_eq 'what make dist makes' "$(ls "$1")" "tandem-$version.tar.gz"
  }
  dist "$tmp/dist1"
  # No time of the day is in it: its files' is the commit's, and gzip's is none.
  run_ok tar --utc --full-time -tvzf "$tmp/dist1/tandem-$version.tar.gz"
  check_eq 'times in the tarball' \
    "$(awk '{ print $4, $5 }' "$tmp/out" | sort -u)" \
    "$(TZ=UTC git show -s --format=%cd --date=format-local:'%F %T' HEAD)"
  names=$(sed -E 's/([^ ]+ +){5}//; /\/$/d; s/ -> .*//' "$tmp/out" | sort)
  check_eq 'the files of the tarball' "$names" \
    "$(git ls-tree -r --name-only HEAD | sed "s|^|tandem-$version/|" | sort)"
  check_eq "the tarball's own time" "$(od -An -tu4 -j 4 -N 4 \
    "$tmp/dist1/tandem-$version.tar.gz" | tr -d ' ')" 0
  if full; then
    sleep 1
    dist "$tmp/dist2"
    run_ok cmp "$tmp"/dist[12]/*.tar.gz
  fi
else
  echo 'not checked: make dist, which takes what git tracks'
fi

# ---- installed files --------------------------------------------------------
# The build is up to date and must not be rebuilt.
root_of=$tmp/stage/usr
run_ok make -s -o "${build#"$root"/}/flags" O="${build#"$root"/}" \
  DESTDIR="$tmp/stage" PREFIX=/usr LIBDIR=/usr/lib/here install
"$TANDEM" help --man |
  sed -n 's/^\\fB\(tandem.*\)\\fR(1)$/\1/p' | tr -d "\\\\" >"$tmp/pages"
check_eq 'the manual pages' "$(find "$root_of/share/man" -type f -printf '%f\n' |
  sort)" "$(printf '%s\n' tandem tandem-npu tandem-stress |
  cat - "$tmp/pages" | sed 's/$/.1/' | sort)"
check_eq 'documents' \
  "$(cd "$root_of/share/doc/tandem/docs" && ls ./*.md design/*.md)" \
  "$(cd docs && ls ./*.md design/*.md)"
check_eq 'what the unit starts' \
  "$(sed -n 's/^ExecStart=//p' "$root_of/lib/systemd/user/tandem.service")" \
  '/usr/bin/tandem serve'
if command -v systemd-analyze >/dev/null; then
  sed "s|/usr/bin/tandem|$TANDEM|" \
    "$root_of/lib/systemd/user/tandem.service" >"$tmp/tandem.service"
  run systemd-analyze --user verify "$tmp/tandem.service"
  check_lacks 'the output of systemd-analyze' "$err" tandem.service
else
  echo 'not checked: systemd-analyze is not there'
fi

# ---- Debian packages, without building them ---------------------------------
check_eq 'packages' "$(sed -n 's/^Package: //p' scripts/debian/control)" \
  'tandem
tandem-data
libtandem0
libtandem-dev'
# Each file that is installed is in a package, and each is in one only.
(
  cd "$tmp/stage" || exit 1
  mkdir -p usr/lib/here
  for list in "$root"/scripts/debian/*.install; do
    while read -r what _; do
      # shellcheck disable=SC2086 # a pattern
      find $what ! -type d
    done <"$list"
  done
) >"$tmp/packed" 2>"$tmp/missing"
check_eq 'what packages lack' "$(cat "$tmp/missing")" ''
check_eq 'contents of the packages' "$(sort "$tmp/packed")" \
  "$(cd "$tmp/stage" && find usr ! -type d | sort)"
dev_packages() { # of a text, but for the libraries of C and of the tests
  grep -o 'lib[a-z0-9-]*-dev' | grep -v 'libc6\|libtandem\|libcmocka' | sort -u
}
check_eq 'what it is built with' \
  "$(sed '/^Package/,$d' scripts/debian/control | dev_packages)" \
  "$(sed -n "/^needed='/,/'$/p" scripts/deps | dev_packages)"
check_has 'what it is built with' \
  "$(sed '/^Package/,$d' scripts/debian/control)" libcmocka-dev
# A static program needs the libraries of the development package's
# dependencies.
for library in $(sed -n 's/^Libs.private: //p' \
  "$root_of/lib/here/pkgconfig/tandem.pc"); do
  case $library in
  -pthread | -lm) continue ;;
  esac
  library=${library#-l}
  check_has 'what libtandem-dev depends on' \
    "$(sed -n '/^Package: libtandem-dev/,/^Desc/p' scripts/debian/control)" \
    "lib${library%-8}" # libpcre2-dev has libpcre2-8
done
finish
