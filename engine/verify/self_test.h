/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of a device: a few of the checker's own cases, each about a capability, run before the
 * capability counts (cl/device/asking.h says when and where). */
#ifndef ENGINE_VERIFY_SELF_TEST_H
#define ENGINE_VERIFY_SELF_TEST_H

/* Makes the self-tests known to the room that asks devices. Whoever opens devices calls it once. */
void clt_self_test_register(void);

#endif
