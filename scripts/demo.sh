#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One command from a fresh Debian 12, Ubuntu 22.04 or 24.04 to a trained net: installs what is missing, builds, and runs
# "cltrain demo". Arguments are passed on to it (scripts/demo.sh --help).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages "${CLTRAIN_PACKAGES[@]}"
build release cltrain -DBUILD_TESTING=OFF
say "running: $(preset_folder release)/cltrain demo $*"
exec "$(preset_folder release)/cltrain" demo "$@"
