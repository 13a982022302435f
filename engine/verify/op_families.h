/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of ops for the tuner and its records (cl/tune/families.h), with the bench that measures them.
 */
#ifndef ENGINE_VERIFY_OP_FAMILIES_H
#define ENGINE_VERIFY_OP_FAMILIES_H

/* Whoever reads or makes tuning records calls it once. */
void clt_op_families_register(void);

#endif
