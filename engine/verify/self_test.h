/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of a device: some of the checker's cases, each for one capability, which are run before the
 * capability may be used (cl/probes/asking.h says when and where). */
#ifndef ENGINE_VERIFY_SELF_TEST_H
#define ENGINE_VERIFY_SELF_TEST_H

/* Registers the self-tests with the room that probes devices. To be called once by every program that opens
 * devices. */
void clt_self_test_register(void);

#endif
