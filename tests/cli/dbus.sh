#!/usr/bin/env bash
# The server on a private bus: its replies to busctl, gdbus, dbus-send and a
# client that holds a pipe, its start and its end.
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # status, out, err, tmp and root are lib.sh's

command -v dbus-daemon >/dev/null || skip 'no dbus-daemon'
command -v dbus-send >/dev/null || skip 'no dbus-send'
name=dev.tandem.Engine1
engine=/dev/tandem/engine
client=$tmp/client
# shellcheck disable=SC2046 # words
run_ok ${CC:-cc} -std=gnu11 -o "$client" tests/cli/dbus_client.c \
  $(pkg-config --cflags --libs dbus-1)

# ---- a bus that starts the service ------------------------------------------
# In a pass of the service is a time in which nothing runs: its texts are under
# way for as long as a test looks at them, however busy the machine is.
slow='-t 2 --va-window 8M --va-slots 4 --va-map-us 5000'
mkdir "$tmp/services"
sed "s|@bindir@/tandem |$TANDEM |; /SystemdService/d; s|--quiet|& $slow|" \
  host/serve/dev.tandem.Engine1.service.in >"$tmp/services/$name.service"
check_has 'the activation file' "$(cat "$tmp/services/$name.service")" \
  "Exec=$TANDEM serve --dbus"
bus() { # TYPE ADDRESS: a bus's settings
  cat <<END
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>$1</type><listen>unix:path=$2</listen>
<servicedir>$tmp/services</servicedir>
<policy context="default"><allow send_destination="*" eavesdrop="true"/>
<allow eavesdrop="true"/>$3</policy></busconfig>
END
}
bus session "$tmp/session" '<allow own="*"/>' >"$tmp/session.conf"
bus session "$tmp/strict" '<deny own="*"/>' >"$tmp/strict.conf"
daemons=()
start_bus() { # NAME
  dbus-daemon --config-file="$tmp/$1.conf" --nofork --nopidfile \
    2>"$tmp/$1.log" &
  daemons+=($!)
  until [ -S "$tmp/$1" ]; do sleep 0.05; done
}
end_all() {
  kill "${daemons[@]}" 2>/dev/null
  wait 2>/dev/null
  at_exit
}
trap end_all EXIT
start_bus session
export DBUS_SESSION_BUS_ADDRESS=unix:path=$tmp/session

want=$("$TANDEM" run -n 12 -p 'Once upon a time')
run_ok timeout 300 "$client" "$tmp/path" 'Once upon a time' 12
check_eq 'the text of a service that the bus started' "$out" "$want"
check_eq 'how it ended' "$err" 'length 12'

# ---- introspection ----------------------------------------------------------
get() { # FACE PROPERTY [PATH]
  dbus-send --session --print-reply=literal --dest=$name "${3:-$engine}" \
    org.freedesktop.DBus.Properties.Get "string:$1" "string:$2" 2>&1 |
    sed 's/^ *variant *//; s/ *$//'
}
pid_of_service() {
  dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus \
    / org.freedesktop.DBus.GetConnectionUnixProcessID string:$name |
    sed 's/.*uint32 //'
}
pid=$(pid_of_service)
check_eq 'its model' "$(get $name Model)" target
check_eq 'its method' "$(get $name Method)" autoregressive
check_eq 'its version' "tandem $(get $name Version)" "$("$TANDEM" --version)"
check_eq 'its state' "$(get $name State)" ready
check_has 'what the machine has' "$(get $name Findings)" io_uring
check_has 'a property that is not' "$(get $name Nothing)" \
  org.freedesktop.DBus.Error.UnknownProperty

call() { # PATH MEMBER ARGUMENT...
  dbus-send --session --print-reply=literal --dest=$name "$@" 2>&1
}
interface_of() { # NAME <FILE: that interface of an introspection
  sed -n "/<interface name=\"$1\">/,/<\/interface>/p"
}
check_eq 'the properties of the engine' \
  "$(call $engine org.freedesktop.DBus.Introspectable.Introspect |
    interface_of $name)" \
  "$(interface_of $name <host/serve/dev.tandem.Engine1.xml)"
check_has 'an object that is not' "$(call /dev/none $name.Generate)" \
  org.freedesktop.DBus.Error.UnknownObject
check_has 'a method that is not' "$(call $engine $name.Nothing)" \
  org.freedesktop.DBus.Error.UnknownMethod
check_has 'no request' "$(call $engine $name.Generate)" \
  dev.tandem.Error.InvalidType

# ---- by other tools ----------------------------------------------------------
if command -v busctl >/dev/null; then
  run_ok busctl --user --address="$DBUS_SESSION_BUS_ADDRESS" \
    get-property $name $engine $name Model
  check_eq 'the model by busctl' "$out" 's "target"'
  run_ok busctl --user --address="$DBUS_SESSION_BUS_ADDRESS" introspect \
    $name $engine
  check_has 'what busctl sees' "$out" '.Generate'
  run busctl --user --address="$DBUS_SESSION_BUS_ADDRESS" call $name $engine \
    $name Generate 'a{sv}' 2 prompt s Hi nothing b true
  check_has 'the message of busctl' "$err" "'nothing'"
  run busctl --user --address="$DBUS_SESSION_BUS_ADDRESS" call $name $engine \
    $name Generate 'a{sv}' 1 prompt ay 2 72 105
  check_eq 'status of a prompt in bytes' "$status" 1
  run_ok busctl --user --address="$DBUS_SESSION_BUS_ADDRESS" call $name \
    $engine $name Generate 'a{sv}' 2 prompt s Hi max_tokens u 3
  check_has 'a text by busctl' "$out" /dev/tandem/text/
else
  echo 'not checked: busctl is not there'
fi
if command -v gdbus >/dev/null; then
  run gdbus call --session --dest $name --object-path $engine --method \
    $name.Generate "{'prompt': <'Hi'>, 'max_tokens': <1000000>}"
  check_has 'the message of gdbus' "$err" dev.tandem.Error.ContextLengthExceeded
  # A chat by its own member, not by one of that name further in.
  run_ok gdbus call --session --dest $name --object-path $engine --method \
    $name.Generate "{'prompt': <'Hi'>, 'max_tokens': <1>,
      'metadata': <{'messages': <'none'>}>}"
  check_has 'a text of a prompt' "$out" /dev/tandem/text
  run_ok gdbus call --session --dest $name --object-path /dev/tandem --method \
    org.freedesktop.DBus.ObjectManager.GetManagedObjects
  check_has 'the objects there are' "$out" "'$engine'"
  run_ok gdbus introspect --session --dest $name --object-path /dev --recurse
  check_has 'the tree' "$out" "node $engine"
else
  echo 'not checked: gdbus is not there'
fi

# ---- a text under way --------------------------------------------------------
long() { # starts a client, and waits until it has its text
  rm -f "$tmp/path"
  "$client" "$tmp/path" 'Once upon a time' 300 >"$tmp/long.out" \
    2>"$tmp/long.err" &
  long=$!
  until [ -s "$tmp/path" ] && [ -s "$tmp/long.out" ]; do
    kill -0 $long || break
    sleep 0.05
  done
  text=$(cat "$tmp/path")
}
dbus-monitor --session "type='signal',path_namespace='/dev/tandem'" \
  >"$tmp/signals" 2>/dev/null &
daemons+=($!)
long
check_eq 'its state' "$(get dev.tandem.Text1 State "$text")" writing
check_eq 'the properties of the text' \
  "$(call "$text" org.freedesktop.DBus.Introspectable.Introspect |
    interface_of dev.tandem.Text1)" \
  "$(interface_of dev.tandem.Text1 <host/serve/dev.tandem.Text1.xml)"
call "$text" dev.tandem.Text1.Cancel >/dev/null
wait $long
check_eq 'status of a client whose text is canceled' $? 1
check_has 'the message of the client' "$(cat "$tmp/long.err")" \
  dev.tandem.Error.Canceled
until grep -q InterfacesRemoved "$tmp/signals"; do sleep 0.05; done
check_has 'the signals' "$(cat "$tmp/signals")" PropertiesChanged
check_lacks 'the signals' "$(cat "$tmp/signals")" \
  "$(head -c 12 <<<"$want")"

# A client that leaves is not computed for.
long
kill $long
wait $long 2>/dev/null
until [ "$(get $name State)" = ready ]; do
  kill -0 "$pid" || break
  sleep 0.05
done
check_eq 'the state after a client has left' "$(get $name State)" ready

# The service dies.
long
kill -9 "$pid"
wait $long
check_eq 'status of a client whose service died' $? 1
check_has 'the message of the client' "$(cat "$tmp/long.err")" \
  org.freedesktop.DBus.Error
check_has 'a later request for that text, to a restarted service' \
  "$(call "$text" dev.tandem.Text1.Wait)" \
  org.freedesktop.DBus.Error.UnknownObject

# The session ends, and with it a service that was started automatically.
run_ok timeout 300 "$client" "$tmp/path" Hi 1 # which starts another
pid=$(pid_of_service)
kill "${daemons[0]}"
checks=$((checks + 1))
timeout 300 tail --pid="$pid" -f /dev/null || fail 'a service lives without a bus'

# ---- refused -----------------------------------------------------------------
start_bus strict
run env DBUS_SYSTEM_BUS_ADDRESS="unix:path=$tmp/strict" timeout 300 "$TANDEM" \
  serve --dbus-system --listen none
check_eq 'status without a policy file' "$status" 1
check_has 'why' "$err" 'policy file'
run env DBUS_SESSION_BUS_ADDRESS="unix:path=$tmp/none" timeout 300 "$TANDEM" \
  serve --dbus --listen none
check_eq 'status without a bus' "$status" 1
check_has 'why' "$err" 'the session bus'
misuse "$TANDEM" serve --listen none
misuse "$TANDEM" serve --dbus --dbus-system

finish
