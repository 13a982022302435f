/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of one host, such as ranks, often need the same programs at the same time. One process builds a
 * program; the others wait for it or build another program first, because compiling the same program in
 * parallel gains nothing and makes some drivers fail. A turn is a lock on one byte of a file in the folder
 * of kept programs: the byte's offset is a hash of everything that determines the program. The host's
 * operating system releases the turn when its process ends, even by a crash. On a file system without locks
 * every process builds all programs. */
#include "cl/program/build_turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "engine/files/fileio.h"

#define WAIT_SECONDS                                                                                         \
    300.0 /* less than the limits after which a builder or a worker of verify counts as hung */

int ocl_turns_open(const char *folder)
{
    CLT_FREED char *path = NULL;
    return clt_path_join(folder, "turns", &path) == CLT_OK
               ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
               : -1;
}

/* Sets or queries a lock of the open file, not of the process: otherwise closing another descriptor of the
 * file in any thread would release it. */
static int ask_lock(int turns, int command, short type, uint64_t hash, short *found)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(hash >> 2), .l_len = 1};
    int result = fcntl(turns, command, &lock);
    *found = lock.l_type;
    return result;
}

bool ocl_turn_is_taken(int turns, uint64_t hash)
{
    short found;
    return turns >= 0 && ask_lock(turns, F_OFD_GETLK, F_WRLCK, hash, &found) == 0 && found != F_UNLCK;
}

bool ocl_turn_take(int turns, uint64_t hash)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    double until = clt_now() + WAIT_SECONDS;
    short found;
    while (turns >= 0 && ask_lock(turns, F_OFD_SETLK, F_WRLCK, hash, &found) != 0) {
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || clt_now() > until)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return turns >= 0;
}

void ocl_turn_give(int turns, uint64_t hash)
{
    short found;
    (void)ask_lock(turns, F_OFD_SETLK, F_UNLCK, hash, &found);
}
