# Sourced by script/up and script/test: makes .venv/ in this checkout, from the pinned and hashed requirements.
# Needs git and python3 >= 3.11 with venv; says which command installs what lacks. A second time it only compares a stamp.
#   here=CHECKOUT; bootstrap runtime | dev

venv=$here/.venv
packages="keel rift-agent rift onbe-client onbe"

fail() { printf '%s\n' "$*" >&2; exit 1; }

# step "what it does" COMMAND [ARG…]: one line that grows a dot a second; the command's own output is shown when it fails.
step() {
  what=$1; shift
  log=$here/.venv.log
  printf '  %s ' "$what"
  ( while sleep 1 >/dev/null 2>&1; do printf .; done ) & dots=$!
  code=0; "$@" >"$log" 2>&1 </dev/null || code=$?
  kill "$dots" 2>/dev/null; wait "$dots" 2>/dev/null || true
  if [ "$code" = 0 ]; then echo " done"; else echo " failed"; tail -n 20 "$log" >&2; fi
  return "$code"
}

as_root() { [ "$(id -u)" = 0 ]; }

# The command that installs Debian packages $*, as whoever asks would type it.
install_command() {
  if command -v apt-get >/dev/null 2>&1; then echo "${sudo-}apt-get install -y $1"
  elif command -v dnf >/dev/null 2>&1; then echo "${sudo-}dnf install -y $2"
  elif command -v brew >/dev/null 2>&1; then echo "brew install $2"
  else echo "install $2 with your system's package manager"; fi
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" && return
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1"
}

find_python() {
  for python in ${PYTHON-} python3 python3.14 python3.13 python3.12 python3.11; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
  done
  fail "Python 3.11 or newer is needed. Install it: $(install_command python3 python3)"
}

check_system() {
  sudo=""; as_root || sudo="sudo "
  command -v git >/dev/null 2>&1 || fail "git is needed. Install it: $(install_command git git)"
  find_python
  # Debian keeps `venv` in a package of its own.
  "$python" -c 'import ensurepip, venv' 2>/dev/null && return
  package=python3-venv
  [ "$python" = python3 ] || package=$python-venv
  if as_root && command -v apt-get >/dev/null 2>&1; then
    step "installing the Debian package $package" apt_install "$package" && return
  fi
  fail "Python's venv module is needed. Install it, then run this again: $(install_command "$package" python3)"
}

pip_uv() { "$venv/bin/python" -m pip "$@" --quiet --disable-pip-version-check --require-hashes -r "$here/requirements/bootstrap.txt"; }

# As pip is set up here; where that set-up is broken, once more without it. What comes is checked by its hash either way.
get_uv() { pip_uv install || PIP_CONFIG_FILE=/dev/null pip_uv --isolated install; }

# A fresh environment each time one is needed: a half-made one would be a riddle.
make_venv() { rm -rf "$venv" && "$python" -m venv "$venv"; }

uv() { env -u VIRTUAL_ENV -u PYTHONPATH "$venv/bin/uv" "$@" --python "$venv/bin/python"; }

install_ours() {
  set --
  for name in $packages; do [ -e "$here/packages/$name/pyproject.toml" ] && set -- "$@" -e "$here/packages/$name"; done
  uv pip install --no-deps --no-build-isolation "$@"
}

venv_works() { "$venv/bin/python" -I -c '' 2>/dev/null && [ -x "$venv/bin/uv" ]; }

# What the environment was made from; moving the checkout or changing a pin changes it.
wanted() {
  ( cd "$here" && echo "$here" && cat "requirements/$1.txt" requirements/bootstrap.txt script/bootstrap.sh packages/*/pyproject.toml ) | cksum
}

stamped() { [ "$(cat "$venv/stamp-$1" 2>/dev/null)" = "$(wanted "$1")" ] && venv_works; }

bootstrap() {
  level=$1
  stamped "$level" && return
  # Everything to run is in an environment made for tests too.
  [ "$level" = runtime ] && stamped dev && return
  [ -e "$venv/stamp-dev" ] && level=dev
  for path in "$here" "$venv" "$here/.venv.lock"; do
    [ ! -e "$path" ] || [ -w "$path" ] || fail "$path is not yours to change, and needs to be set up anew; run this as its owner, or clone for yourself"
  done
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$here/.venv.lock"
    flock -n 9 || { echo "another script sets this checkout up; waiting for it"; flock 9; }
    if stamped "$level"; then exec 9>&-; return; fi
  fi
  echo "Setting up $venv"
  check_system
  rm -f "$venv"/stamp-*
  venv_works || { step "making a Python environment" make_venv && step "fetching uv, the installer" get_uv; } || exit 1
  step "fetching $(grep -c '^[a-z0-9].*==' "$here/requirements/$level.txt") packages, each checked by its hash" \
    uv pip sync --require-hashes "$here/requirements/$level.txt" || exit 1
  step "installing $packages from this checkout" install_ours || exit 1
  wanted "$level" >"$venv/stamp-$level"
  [ "$level" = dev ] && wanted runtime >"$venv/stamp-runtime"
  rm -f "$here/.venv.log"
  exec 9>&- || true
}
