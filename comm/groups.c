/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes groups of ranks, the whole job's and those split off from it, and finds out which ranks share a
 * host. */
#include "comm/comm_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/files/process.h"

static void free_group(comm *c)
{
    if (!c)
        return;
    free_group(c->across);
    comm_segment_destroy(c->segment);
    free(c->member);
    free(c->local);
    free(c->node);
    free(c->seat);
    free(c);
}
CLT_SCOPED_POINTER(comm, free_group)

/* A group of `ranks` ranks, in which this process has the number `rank`; the caller fills member[]. */
static clt_status new_group(comm_engine *e, comm *parent, int rank, int ranks, comm **out)
{
    CLT_SCOPED(comm) *c = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "a group of ranks"));
    c->engine = e;
    c->parent = parent;
    c->slot_bytes = COMM_SLOT_BYTES;
    c->info.rank = rank;
    c->info.ranks = ranks;
    c->info.transport = comm_engine_transport(e)->name;
    c->info.description = comm_engine_description(e);
    CLT_TRY(clt_alloc(&c->member, (size_t)ranks, sizeof *c->member, "a group of ranks"));
    CLT_TRY(clt_alloc(&c->local, (size_t)ranks, sizeof *c->local, "a group of ranks"));
    CLT_TRY(clt_alloc(&c->node, (size_t)ranks, sizeof *c->node, "a group of ranks"));
    CLT_TRY(clt_alloc(&c->seat, (size_t)ranks, sizeof *c->seat, "a group of ranks"));
    *out = CLT_TAKE(c);
    return CLT_OK;
}

/* Identifies a host. Two hosts may have the same name, so `boot` is needed, too. Parts of one machine to
 * which name spaces give own host names count as hosts. */
typedef struct host_id {
    char name[64];
    char boot[40]; /* identifies the running kernel's start */
} host_id;

/* The description of itself that a rank sends to the others. */
typedef struct place_message {
    host_id host;
    int64_t process, space; /* process number, and the name space in which it is valid */
    uint64_t cores[16];     /* bits of the cores that the rank may run on; all set if unknown */
} place_message;

static void find_host(const comm_transport *transport, host_id *id)
{
    memset(id, 0, sizeof *id);
    if (transport->host)
        (void)snprintf(id->name, sizeof id->name, "%s", transport->host());
    else if (gethostname(id->name, sizeof id->name - 1) != 0)
        (void)snprintf(id->name, sizeof id->name, "localhost");
    clt_boot_identity(id->boot, sizeof id->boot);
}

static bool same_host(const place_message *a, const place_message *b)
{
    return memcmp(&a->host, &b->host, sizeof a->host) == 0;
}

static void find_cores(uint64_t *cores, size_t bytes)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    bool known = sched_getaffinity(getpid(), sizeof set, &set) == 0 && sizeof set == bytes;
    if (known)
        memcpy(cores, &set, bytes);
    else
        memset(cores, 0xff, bytes);
}

static int count_cores(const place_message *message)
{
    int count = 0;
    for (size_t i = 0; i < sizeof message->cores / sizeof message->cores[0]; i++)
        count += __builtin_popcountll(message->cores[i]);
    return count;
}

static bool share_cores(const place_message *a, const place_message *b)
{
    bool any = false;
    for (size_t i = 0; i < sizeof a->cores / sizeof a->cores[0]; i++)
        any = any || (a->cores[i] & b->cores[i]) != 0;
    return any;
}

/* From the places of all ranks: numbers hosts in the order of their first ranks, and finds the local
 * ranks. */
static void place(comm *c, const place_message *messages)
{
    comm_info *info = &c->info;
    const place_message *mine = &messages[info->rank];
    memcpy(info->host, mine->host.name, sizeof info->host);
    info->even_nodes = true;
    for (int r = 0; r < info->ranks; r++) {
        int same = -1; /* the last rank before r on its host */
        for (int q = 0; q < r; q++)
            same = same_host(&messages[q], &messages[r]) ? q : same;
        c->node[r] = same < 0 ? info->nodes++ : c->node[same];
        c->seat[r] = same < 0 ? 0 : c->seat[same] + 1;
        if (!same_host(&messages[r], mine))
            continue;
        info->core_ranks += r == info->rank || share_cores(&messages[r], mine);
        if (r < info->rank)
            info->local_rank++;
        c->local[info->local_ranks++] = r;
    }
    for (int r = 0; r < info->ranks; r++)
        info->even_nodes = info->even_nodes && c->node[r] == r / info->local_ranks;
    info->even_nodes = info->even_nodes && info->nodes * info->local_ranks == info->ranks;
}

/* lane[] gets, for each host, the rank that has this rank's local_rank. Returns the least number of ranks on
 * a host. */
static int find_lane(const comm *c, int *lane)
{
    int least = c->info.ranks;
    for (int n = 0; n < c->info.nodes; n++) {
        int here = 0;
        for (int r = 0; r < c->info.ranks; r++) {
            here += c->node[r] == n;
            if (c->node[r] == n && c->seat[r] == c->info.local_rank)
                lane[n] = r;
        }
        least = here < least ? here : least;
    }
    return least;
}

/* Makes c->across. It uses the tag of `c`, since its messages are sent inside collectives of `c`; no two of
 * its ranks are on one host. */
static clt_status make_across(comm *c, const int *lane)
{
    comm *a = NULL;
    int mine = c->node[c->info.rank];
    CLT_TRY(new_group(c->engine, c, mine, c->info.nodes, &a));
    c->across = a;
    a->tag = c->tag;
    a->slot_bytes = c->slot_bytes;
    for (int n = 0; n < c->info.nodes; n++)
        a->member[n] = c->member[lane[n]];
    a->info.local_ranks = a->info.core_ranks = 1;
    a->info.nodes = c->info.nodes;
    a->info.even_nodes = true;
    a->local[0] = mine;
    memcpy(a->info.host, c->info.host, sizeof a->info.host);
    return CLT_OK;
}

/* Prepares sums in two levels: shared memory, the number of lanes, and the group across hosts. */
static clt_status make_lanes(comm *c)
{
    CLT_FREED int *lane = NULL;
    CLT_TRY(comm_segment_create(c, COMM_SLOTS * c->slot_bytes, &c->segment));
    int64_t shared = (c->segment || c->info.local_ranks == 1) && c->info.local_ranks <= COMM_MOST_LOCAL;
    CLT_TRY(comm_run_all_reduce(c, &shared, 1, COMM_I64, COMM_MIN));
    if (!shared || c->info.nodes == c->info.ranks)
        return CLT_OK;
    CLT_TRY(clt_alloc(&lane, (size_t)c->info.ranks, sizeof *lane, "a group of ranks"));
    c->lanes = find_lane(c, lane);
    return c->info.nodes > 1 && c->info.local_rank < c->lanes ? make_across(c, lane) : CLT_OK;
}

/* Runs on the communication thread of all ranks of the group: finds hosts, makes shared memory and the group
 * across hosts. */
static clt_status settle(void *context)
{
    comm *c = context;
    CLT_FREED place_message *messages = NULL;
    CLT_TRY(clt_alloc(&messages, (size_t)c->info.ranks, sizeof *messages, "names of hosts"));
    place_message *mine = &messages[c->info.rank];
    find_host(comm_engine_transport(c->engine), &mine->host);
    mine->process = getpid();
    mine->space = clt_process_space();
    find_cores(mine->cores, sizeof mine->cores);
    CLT_TRY(comm_run_all_gather(c, messages, c->info.ranks * (int64_t)sizeof *messages, sizeof *messages,
                                COMM_U8));
    place(c, messages);
    if (!c->parent)
        comm_engine_set_crowded(c->engine, count_cores(mine) < 2 * c->info.core_ranks);
    for (int r = 0; !c->parent && r < c->info.ranks; r++)
        if (messages[r].process != mine->process && messages[r].space == mine->space &&
            same_host(&messages[r], mine))
            comm_engine_watch(c->engine, r, messages[r].process);
    return make_lanes(c);
}

clt_status comm_create_with(const comm_transport *transport, comm **out)
{
    CLT_SCOPED(comm) *c = NULL;
    CLT_SCOPED(comm_engine) *e = NULL;
    *out = NULL;
    CLT_TRY(comm_engine_create(transport, &e));
    CLT_TRY(new_group(e, NULL, comm_engine_rank(e), comm_engine_ranks(e), &c));
    for (int r = 0; r < c->info.ranks; r++)
        c->member[r] = r;
    CLT_TRY(comm_engine_run(e, "meeting of all ranks", settle, c));
    comm_engine_set_host(e, c->info.host);
    *out = CLT_TAKE(c);
    e = NULL; /* the group owns it */
    return CLT_OK;
}

clt_status comm_create(comm **out)
{
    *out = NULL;
    if (!comm_under_launcher()) {
        comm_warn_if_alone();
        return comm_create_with(&comm_transport_self, out);
    }
    const comm_transport *transport = NULL;
    CLT_TRY(comm_load_mpi(&transport));
    CLT_TRY(comm_create_with(transport, out));
    int promised = comm_launcher_ranks();
    int found = (*out)->info.ranks;
    if (promised > 0 && promised != found) {
        clt_status status =
            clt_fail(CLT_ECOMM, __FILE__, __LINE__,
                     "the launcher started %d processes, but the MPI library of the module (%s) sees %d: "
                     "start with the mpirun that belongs to this library, or build cltrain with the MPI "
                     "of your launcher",
                     promised, (*out)->info.description, found);
        comm_destroy(*out);
        *out = NULL;
        return status;
    }
    return CLT_OK;
}

void comm_destroy(comm *c)
{
    if (!c)
        return;
    if (!c->parent)
        comm_engine_destroy(c->engine);
    free_group(c);
}

const comm_info *comm_describe(const comm *c)
{
    return &c->info;
}

void comm_set_deadline(comm *c, double seconds)
{
    comm_engine_set_deadline(c->engine, seconds);
}

void comm_set_phase(comm *c, const char *text)
{
    comm_engine_set_phase(c->engine, text);
}

/* --- splitting --- */

typedef struct seat {
    int64_t colour, key, rank, tag; /* tag: the largest that any group uses on that rank */
} seat;

static int by_key(const void *a, const void *b)
{
    const seat *x = a, *y = b;
    int64_t d = x->key != y->key ? x->key - y->key : x->rank - y->rank;
    return d < 0 ? -1 : d > 0;
}

/* Moves the members of this colour, in order, to the front of seats and returns their number; *tag: the
 * largest tag of all ranks. */
static int keep_colour(seat *seats, int n, int64_t colour, int64_t *tag)
{
    int kept = 0;
    for (int r = 0; r < n; r++) {
        *tag = seats[r].tag > *tag ? seats[r].tag : *tag;
        if (seats[r].colour == colour)
            seats[kept++] = seats[r];
    }
    qsort(seats, (size_t)kept, sizeof *seats, by_key);
    return kept;
}

static clt_status make_part(comm *parent, const seat *seats, int n, int64_t tag, comm **out)
{
    int me = 0;
    while (seats[me].rank != parent->info.rank)
        me++;
    if (tag >= COMM_MAX_TAG)
        CLT_FAIL(CLT_ECOMM, "more than %d groups of ranks were made", COMM_MAX_TAG - 1);
    CLT_TRY(new_group(parent->engine, parent, me, n, out));
    (*out)->tag = (int)tag;
    for (int r = 0; r < n; r++)
        (*out)->member[r] = parent->member[seats[r].rank];
    return CLT_OK;
}

typedef struct gathering {
    comm *parent;
    seat *seats;
} gathering;

static clt_status gather_seats(void *context)
{
    gathering *g = context;
    return comm_run_all_gather(g->parent, g->seats, g->parent->info.ranks * (int64_t)sizeof(seat),
                               sizeof(seat), COMM_U8);
}

static clt_status split(comm *parent, int colour, int key, int64_t slot_bytes, comm **out)
{
    int n = parent->info.ranks, me = parent->info.rank;
    CLT_FREED seat *seats = NULL;
    CLT_SCOPED(comm) *part = NULL;
    int64_t tag = 0;
    *out = NULL;
    CLT_TRY(clt_alloc(&seats, (size_t)n, sizeof *seats, "a group of ranks"));
    seats[me] = (seat){colour, key, me, comm_engine_last_tag(parent->engine)};
    gathering g = {.parent = parent, .seats = seats};
    CLT_TRY(comm_engine_run(parent->engine, "making groups", gather_seats, &g));
    int kept = keep_colour(seats, n, colour, &tag);
    comm_engine_use_tag(parent->engine, (int)(tag + 1));
    if (colour < 0)
        return CLT_OK;
    CLT_TRY(make_part(parent, seats, kept, tag + 1, &part));
    part->slot_bytes = slot_bytes;
    CLT_TRY(comm_engine_run(parent->engine, "meeting of a group", settle, part));
    *out = CLT_TAKE(part);
    return CLT_OK;
}

int64_t comm_group_bytes(bool small)
{
    return COMM_SLOTS * (small ? COMM_SMALL_SLOT_BYTES : COMM_SLOT_BYTES);
}

clt_status comm_split(comm *parent, int colour, int key, comm **out)
{
    return split(parent, colour, key, COMM_SLOT_BYTES, out);
}

clt_status comm_split_small(comm *parent, int colour, int key, comm **out)
{
    return split(parent, colour, key, COMM_SMALL_SLOT_BYTES, out);
}
