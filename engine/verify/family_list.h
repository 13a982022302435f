/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of ops and of the update for the tuner and its records (cl/tune/families.h), with the benches
 * that measure them. */
#ifndef ENGINE_VERIFY_FAMILY_LIST_H
#define ENGINE_VERIFY_FAMILY_LIST_H

/* Whoever reads or makes tuning records calls it once. */
void clt_families_register(void);

#endif
