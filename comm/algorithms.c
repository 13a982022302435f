/* SPDX-License-Identifier: Apache-2.0
 *
 * The algorithms of an all-reduce by messages, and the choice among all algorithms:
 *   tree     to rank 0 along a binomial tree and back: few messages, each with all data. For little data.
 *   halving  halves of the data are exchanged with ranks 1, 2, 4 ... away and gathered the same way back:
 *            the fewest messages that send each byte about twice. Needs a power of two of ranks.
 *   ring     each 1 / ranks of the data travels round the ring: once to be summed, once to spread the sum.
 *   slices   every rank gets one slice from all ranks, adds it up and sends the sum to all; pieces overlap
 *            (pieces.c). The only algorithm by messages that rounds 16-bit sums once.
 * If the number of ranks is a power of two, tree, halving, slices and nodes (algorithm_nodes.c) all add in
 * the order of comm_sum_parts, a binary tree over the ranks, and give the same bits. */
#include "comm/comm_internal.h"

bool comm_always_tree(const comm *c)
{
    (void)c;
    return true;
}

bool comm_never_tree(const comm *c)
{
    (void)c;
    return false;
}

static const char *needs_f32_order(const comm *c, comm_type type, comm_op op)
{
    (void)c;
    (void)op;
    return type == COMM_F16 || type == COMM_BF16 ? "it would round 16-bit sums more than once" : NULL;
}

/* --- tree --- */

static clt_status tree_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    int n = c->info.ranks, me = c->info.rank;
    int64_t bytes = count * comm_type_bytes(type);
    void *other;
    CLT_TRY(comm_engine_scratch(c->engine, bytes, &other));
    for (int distance = 1; distance < n; distance *= 2) {
        if (me & distance) {
            CLT_TRY(comm_exchange(c, data, bytes, me - distance, NULL, 0, -1));
            break;
        }
        if (me + distance < n) {
            CLT_TRY(comm_exchange(c, NULL, 0, -1, other, bytes, me + distance));
            comm_combine(data, other, count, type, op);
        }
    }
    return comm_run_broadcast(c, data, bytes, 0);
}

const comm_algorithm comm_algorithm_tree = {"tree", needs_f32_order, comm_always_tree, tree_all_reduce};

/* --- halving --- */

static const char *halving_unsuited(const comm *c, comm_type type, comm_op op)
{
    return c->info.ranks & (c->info.ranks - 1) ? "the number of ranks is not a power of two"
                                               : needs_f32_order(c, type, op);
}

/* Narrows [first, first + length) to its first or second half; a rank with the bit `distance` keeps the
 * second. */
static void half_of(int64_t *first, int64_t *length, bool second)
{
    int64_t half = *length / 2;
    *first += second ? half : 0;
    *length = second ? *length - half : half;
}

static clt_status halving_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    int n = c->info.ranks, me = c->info.rank, depth = 0;
    int64_t size = comm_type_bytes(type), first[32] = {0}, length[32] = {count};
    char *bytes = data;
    void *other;
    CLT_TRY(comm_engine_scratch(c->engine, (count + 1) / 2 * size, &other));
    for (int distance = 1; distance < n; distance *= 2, depth++) {
        int64_t mine = first[depth], kept = length[depth], theirs = first[depth], given = length[depth];
        half_of(&mine, &kept, me & distance);
        half_of(&theirs, &given, !(me & distance));
        CLT_TRY(comm_exchange(c, bytes + theirs * size, given * size, me ^ distance, other, kept * size,
                              me ^ distance));
        comm_combine(bytes + mine * size, other, kept, type, op);
        first[depth + 1] = mine;
        length[depth + 1] = kept;
    }
    for (int distance = n / 2; distance > 0; distance /= 2) {
        depth--;
        int64_t theirs = first[depth], given = length[depth];
        half_of(&theirs, &given, !(me & distance));
        CLT_TRY(comm_exchange(c, bytes + first[depth + 1] * size, length[depth + 1] * size, me ^ distance,
                              bytes + theirs * size, given * size, me ^ distance));
    }
    return CLT_OK;
}

const comm_algorithm comm_algorithm_halving = {"halving", halving_unsuited, comm_always_tree,
                                               halving_all_reduce};

/* --- ring --- */

static clt_status ring_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    int n = c->info.ranks, me = c->info.rank, right = (me + 1) % n, left = (me - 1 + n) % n;
    int64_t size = comm_type_bytes(type), out, sent, in, received, unused;
    char *bytes = data;
    void *other;
    comm_share(count, 1, n, 0, &unused, &received);
    CLT_TRY(comm_engine_scratch(c->engine, received * size, &other));
    for (int s = 0; s < 2 * (n - 1); s++) {
        bool adding = s < n - 1;
        comm_share(count, 1, n, (me - s + 2 * n) % n, &out, &sent);
        comm_share(count, 1, n, (me - s - 1 + 2 * n) % n, &in, &received);
        CLT_TRY(comm_exchange(c, bytes + out * size, sent * size, right, adding ? other : bytes + in * size,
                              received * size, left));
        if (adding)
            comm_combine(bytes + in * size, other, received, type, op);
    }
    return CLT_OK;
}

const comm_algorithm comm_algorithm_ring = {"ring", needs_f32_order, comm_never_tree, ring_all_reduce};

/* --- slices --- */

static const char *slices_unsuited(const comm *c, comm_type type, comm_op op)
{
    (void)c;
    return op != COMM_SUM || (type != COMM_F32 && type != COMM_F16 && type != COMM_BF16)
               ? "it knows sums of f32, f16 and bf16 only"
               : NULL;
}

typedef struct slices_sum {
    char *data;
    int64_t count, max_elements, size;
} slices_sum;

static clt_status begin_slices(void *context, int64_t k, float *wide, comm_piece *piece)
{
    const slices_sum *s = context;
    int64_t at = k * s->max_elements, left = s->count - at;
    (void)wide;
    piece->part = piece->sum = s->data + at * s->size;
    piece->count = left < s->max_elements ? left : s->max_elements;
    return CLT_OK;
}

static clt_status end_slices(void *context, int64_t k, const comm_piece *piece)
{
    (void)context;
    (void)k;
    (void)piece;
    return CLT_OK;
}

static clt_status slices_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    slices_sum s = {data, count, comm_piece_elements(c->info.ranks, type), comm_type_bytes(type)};
    (void)op;
    return comm_run_pieces(c, &(comm_pieces){.type = type,
                                             .sends_messages = true,
                                             .count = (count + s.max_elements - 1) / s.max_elements,
                                             .max_elements = s.max_elements,
                                             .context = &s,
                                             .begin = begin_slices,
                                             .end = end_slices});
}

const comm_algorithm comm_algorithm_slices = {"slices", slices_unsuited, comm_always_tree, slices_all_reduce};

/* --- the transport's own --- */

static const char *native_unsuited(const comm *c, comm_type type, comm_op op)
{
    if (c->parent)
        return "the transport's own all-reduce is over all ranks of the job";
    if (!comm_engine_transport(c->engine)->all_reduce)
        return "the transport does not have its own all-reduce";
    return needs_f32_order(c, type, op);
}

static clt_status reduce_natively(comm *c, void *data, int64_t count, comm_type type, comm_op op,
                                  bool blocking)
{
    int turns = 0;
    char *at = data;
    for (int64_t left = count; left > 0; left -= COMM_REDUCED_COUNT) {
        comm_message message;
        int64_t part = left < COMM_REDUCED_COUNT ? left : COMM_REDUCED_COUNT;
        CLT_TRY(comm_engine_transport(c->engine)->all_reduce(at, part, type, op, blocking ? NULL : &message));
        if (!blocking)
            CLT_TRY(comm_wait_message(c, &message, &turns));
        at += part * comm_type_bytes(type);
    }
    return CLT_OK;
}

static clt_status native_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    return reduce_natively(c, data, count, type, op, false);
}

const comm_algorithm comm_algorithm_native = {"native", native_unsuited, comm_never_tree, native_all_reduce};

typedef struct native_sum {
    comm *group;
    void *data;
    int64_t count;
    comm_type type;
} native_sum;

static clt_status sum_blocking(void *context)
{
    const native_sum *s = context;
    return reduce_natively(s->group, s->data, s->count, s->type, COMM_SUM, true);
}

clt_status comm_native_sum(comm *c, void *data, int64_t count, comm_type type)
{
    const char *why = native_unsuited(c, type, COMM_SUM);
    if (c->info.ranks == 1 || count == 0)
        return CLT_OK;
    if (why)
        CLT_FAIL(CLT_ECONFIG, "the transport's own all-reduce: %s", why);
    return comm_engine_run(c->engine, "the transport's own all-reduce", sum_blocking,
                           &(native_sum){c, data, count, type});
}

/* --- the choice --- */

/* In order of preference; the order does not matter if an algorithm was asked for or measured. */
static const comm_algorithm *const algorithms[] = {&comm_algorithm_nodes,   &comm_algorithm_slices,
                                                   &comm_algorithm_halving, &comm_algorithm_ring,
                                                   &comm_algorithm_tree,    &comm_algorithm_native};
#define ALGORITHMS (sizeof algorithms / sizeof algorithms[0])
/* Up to this number of bytes an all-reduce is limited by the number of messages, not by their size. */
#define SMALL 4096
/* Bytes of a piece, for algorithms that do not cut pieces themselves: scratch memory stays small, and sums
 * are still in a cache when they are sent on. */
#define PIECE ((int64_t)32 << 20)

const char *comm_algorithm_name(size_t index)
{
    return index < ALGORITHMS ? algorithms[index]->name : NULL;
}

const comm_algorithm *comm_algorithm_at(size_t index)
{
    return index < ALGORITHMS ? algorithms[index] : NULL;
}

const char *comm_algorithm_forbidden(const comm *c, const comm_algorithm *algorithm)
{
    if (c->order == COMM_REPEATED && algorithm == &comm_algorithm_native)
        return "its order of additions is unknown, so sums may differ from run to run "
               "(parallel.deterministic)";
    if (c->order == COMM_TREE && !algorithm->is_tree(c))
        return "its sums depend on the number of ranks (parallel.rank_invariant)";
    return NULL;
}

static bool may_go(const comm *c, const comm_algorithm *algorithm, comm_type type, comm_op op)
{
    return !algorithm->unsuited(c, type, op) && (op != COMM_SUM || !comm_algorithm_forbidden(c, algorithm));
}

const comm_algorithm *comm_algorithm_for(const comm *c, int64_t bytes, comm_type type, comm_op op)
{
    if (c->algorithm && may_go(c, c->algorithm, type, op))
        return c->algorithm;
    if (bytes <= SMALL && may_go(c, &comm_algorithm_tree, type, op))
        return &comm_algorithm_tree;
    for (size_t i = 0; i < ALGORITHMS; i++)
        if (may_go(c, algorithms[i], type, op))
            return algorithms[i];
    return NULL;
}

bool comm_in_two_levels(const comm *c, int64_t bytes, comm_type type)
{
    return comm_algorithm_for(c, bytes, type, COMM_SUM) == &comm_algorithm_nodes;
}

clt_status comm_run_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    const comm_algorithm *algorithm = comm_algorithm_for(c, count * comm_type_bytes(type), type, op);
    if (c->info.ranks == 1 || count == 0)
        return CLT_OK;
    if (!algorithm)
        CLT_FAIL(CLT_EINTERNAL, "no algorithm can compute this all-reduce");
    int64_t size = comm_type_bytes(type), most = PIECE / size;
    if (algorithm == &comm_algorithm_native || algorithm == &comm_algorithm_nodes ||
        algorithm == &comm_algorithm_slices)
        most = count;
    for (int64_t at = 0; at < count; at += most)
        CLT_TRY(algorithm->all_reduce(c, (char *)data + at * size, count - at < most ? count - at : most,
                                      type, op));
    return CLT_OK;
}

const char *comm_chosen_algorithm(const comm *c)
{
    return c->info.ranks == 1 ? "none" : comm_algorithm_for(c, SMALL + 1, COMM_F32, COMM_SUM)->name;
}
