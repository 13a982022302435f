/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of a device: some of the checker's cases, each for one capability, which must pass before
 * the capability is used (cl/probes/asking.h says when and where they run). */
#ifndef ENGINE_VERIFY_SELF_TEST_H
#define ENGINE_VERIFY_SELF_TEST_H

/* Registers the self-tests with the room that probes devices. Every program that opens devices calls this
 * once. */
void clt_self_test_register(void);

#endif
