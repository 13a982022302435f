/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes the files that jobs on this host leave behind when SIGKILL ends mpirun: Open MPI's segments of
 * shared memory and its folder for the job. */
#ifndef CLI_LAUNCH_LAUNCH_LEFTOVERS_H
#define CLI_LAUNCH_LAUNCH_LEFTOVERS_H

/* Removes the segments and folders of this user and this host that no process uses any more. Files that
 * cannot be read or removed stay; inside a container nothing is removed. */
void launch_remove_leftovers(void);

#endif
