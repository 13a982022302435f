#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One command from a fresh Debian 12, Ubuntu 22.04 or 24.04 to a trained net: installs what is missing, builds, and runs
# "cltrain demo".
#
# usage: scripts/demo.sh [ARGUMENTS of cltrain demo]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages "${CLTRAIN_PACKAGES[@]}"
build release cltrain -DBUILD_TESTING=OFF
# A short path, because the demo prints commands that begin with it.
program=$(preset_folder release)/cltrain
program=${program#"$PWD"/}
say "running: $program demo $*"
exec "$program" demo "$@"
