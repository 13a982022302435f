/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam and AdamW. */
#include "adam.clh"

KERNEL void update_adam(UPDATE_PARAMS STATE(m) STATE(v) UPDATE_GROUPS, ADAM_PARAMS)
{
    UPDATE_CHUNK
    ADAM_UPDATE
}
