/* SPDX-License-Identifier: Apache-2.0
 *
 * What jobs on this host leave when SIGKILL ends mpirun: Open MPI's segments of shared memory and its folder of the
 * job. */
#ifndef CLI_LAUNCH_LAUNCH_LEFTOVERS_H
#define CLI_LAUNCH_LAUNCH_LEFTOVERS_H

/* Removes the segments and folders of this user and this host that no process uses any more. What cannot be read or
 * removed stays, and inside of a container everything does. */
void launch_remove_leftovers(void);

#endif
