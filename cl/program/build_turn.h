/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: of the processes of a host that need the same program, one builds it. */
#ifndef CL_PROGRAM_BUILD_TURN_H
#define CL_PROGRAM_BUILD_TURN_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the file of turns in the folder of stored programs. Returns its descriptor, which the caller closes;
 * below 0: there are no turns, and the functions below return false. */
int ocl_turns_open(const char *folder);
/* Whether another process has the turn of the program with this hash. */
bool ocl_turn_is_taken(int turns, uint64_t hash);
/* Takes the turn; waits while another process has it. False if the file system has no locks, or if the other
 * process has not finished after 5 minutes. */
bool ocl_turn_take(int turns, uint64_t hash);
/* Releases a turn that this process has. */
void ocl_turn_give(int turns, uint64_t hash);

#endif
