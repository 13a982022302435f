/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers the families of ops and of the update with the tuner and its records (cl/tune/family.h),
 * together with the benches that measure them. */
#ifndef ENGINE_VERIFY_SPEED_FAMILY_LIST_H
#define ENGINE_VERIFY_SPEED_FAMILY_LIST_H

/* Every program that reads or makes tuning records calls this once. */
void clt_families_register(void);

#endif
