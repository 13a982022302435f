/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient buckets of made-up layouts, and of plans. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

#define CHUNK_BYTES (CLT_STORE_CHUNK * sizeof(float))
#define GRAIN ((uint64_t)CLT_BUCKET_CHUNKS * CLT_STORE_CHUNK)
#define GRAIN_BYTES (GRAIN * sizeof(float))
#define MAX_SLOTS 16

/* A layout of parameters with the given numbers of chunks (0: not trained), in the given order. */
typedef struct made {
    clt_store_layout layout;
    clt_store_slot slots[MAX_SLOTS];
    int32_t order[MAX_SLOTS];
    size_t ready[MAX_SLOTS];
} made;

static void make(made *m, int n, const int *chunks, const int *slab)
{
    *m = (made){.layout = {.n_slots = n, .slots = m->slots, .order = m->order, .n_slabs = 1}};
    for (int i = 0; i < n; i++) {
        int s = slab ? slab[i] : 0, size = chunks[i] ? chunks[i] : 1;
        m->order[i] = i;
        m->ready[i] = chunks[i] ? (size_t)(10 * i + 10) : 0;
        m->slots[i] = (clt_store_slot){.trainable = chunks[i] > 0,
                                       .slab = s,
                                       .offset = m->layout.slab_elements[s],
                                       /* the last chunk is not full */
                                       .elements = (uint64_t)size * CLT_STORE_CHUNK - 7};
        m->layout.slab_elements[s] += (uint64_t)size * CLT_STORE_CHUNK;
        if (chunks[i])
            m->layout.trainable_elements[s] = m->layout.slab_elements[s];
        m->layout.n_slabs = s + 1;
    }
}

/* Checks what holds for every table: the buckets cover each slab's gradients once and in order, begin where
 * a partial sum of the norm may begin, and exceed their size by less than one such step. */
static void check_table(const clt_store_layout *layout, clt_bucket_sizes sizes, const clt_bucket *list,
                        size_t count)
{
    uint64_t end[CLT_MAX_STORE_SLABS] = {0};
    for (size_t b = 0; b < count; b++) {
        const clt_range *range = &list[b].range;
        uint64_t most = (b == 0 ? sizes.first : sizes.rest) / GRAIN_BYTES * GRAIN;
        bool last = range->first + range->elements == layout->trainable_elements[range->slab];
        assert_true(range->elements > 0);
        assert_int_equal(range->elements % (last ? CLT_STORE_CHUNK : GRAIN), 0);
        assert_int_equal(range->first % GRAIN, 0);
        assert_int_equal(range->first, end[range->slab]);
        assert_true(range->elements < (most ? most : GRAIN) + (last ? GRAIN : 1));
        assert_true(b == 0 || range->slab >= list[b - 1].range.slab);
        end[range->slab] += range->elements;
    }
    for (int32_t s = 0; s < layout->n_slabs; s++)
        assert_int_equal(end[s], layout->trainable_elements[s]);
}

/* A bucket is ready when all its parameters are, and no sooner than the one before it. */
static void check_ready(const clt_store_layout *layout, const size_t *ready, const clt_bucket *list,
                        size_t count)
{
    size_t latest = 0;
    for (size_t b = 0; b < count; b++) {
        const clt_range *range = &list[b].range;
        for (int32_t i = 0; i < layout->n_slots; i++) {
            const clt_store_slot *slot = &layout->slots[i];
            if (slot->trainable && slot->slab == range->slab &&
                slot->offset < range->first + range->elements &&
                range->first < slot->offset + slot->elements && ready[i] > latest)
                latest = ready[i];
        }
        assert_int_equal(list[b].ready, latest);
    }
}

/* first, rest: sizes of buckets in chunks; wanted: the buckets' expected sizes, with 0 after the last. */
static void expect(made *m, uint64_t first, uint64_t rest, const int *wanted)
{
    CLT_FREED clt_bucket *list = NULL;
    size_t count, n = 0;
    clt_bucket_sizes sizes = {first * CHUNK_BYTES, rest * CHUNK_BYTES};
    must(clt_buckets_make(&m->layout, sizes, &list, &count), "buckets");
    check_table(&m->layout, sizes, list, count);
    clt_buckets_set_ready(&m->layout, m->ready, list, count);
    check_ready(&m->layout, m->ready, list, count);
    while (wanted[n])
        n++;
    assert_int_equal(count, n);
    for (size_t b = 0; b < n; b++)
        assert_int_equal(list[b].range.elements / CLT_STORE_CHUNK, wanted[b]);
}

TEST(test_sizes)
{
    made m;
    make(&m, 7, (const int[]){16, 16, 16, 48, 64, 32, 32}, NULL);
    expect(&m, 32, 128, (const int[]){32, 128, 64, 0});
    expect(&m, 16, 64, (const int[]){16, 32, 48, 64, 64, 0});
    expect(&m, 1000, 1000, (const int[]){224, 0});
    expect(&m, 1000, 1, (const int[]){224, 0}); /* all others join the first */
    expect(&m, 31, 79, (const int[]){16, 32, 48, 64, 64, 0});
    make(&m, 1, (const int[]){1}, NULL);
    expect(&m, 1, 1, (const int[]){1, 0});
    expect(&m, 0, 0, (const int[]){1, 0});
}

/* The rest of a parameter after a multiple of 16 chunks goes into the next bucket, or at the end of the
 * slab into the last one. */
TEST(test_tails_join_the_next)
{
    made m;
    make(&m, 4, (const int[]){20, 20, 20, 20}, NULL);
    expect(&m, 32, 48, (const int[]){16, 32, 32, 0});
    make(&m, 3, (const int[]){3, 30, 3}, NULL);
    expect(&m, 16, 16, (const int[]){16, 16, 4, 0});
    make(&m, 6, (const int[]){1, 2, 3, 4, 5, 6}, NULL);
    expect(&m, 1, 1, (const int[]){21, 0});
    make(&m, 2, (const int[]){5, 12}, NULL);
    expect(&m, 16, 16, (const int[]){17, 0});
}

TEST(test_large_parameters_are_cut)
{
    made m;
    make(&m, 3, (const int[]){32, 160, 32}, NULL);
    expect(&m, 32, 64, (const int[]){32, 64, 48, 48, 32, 0});
    expect(&m, 64, 64, (const int[]){32, 64, 48, 48, 32, 0}); /* the next parameter is not joined */
    make(&m, 2, (const int[]){160, 16}, NULL);
    expect(&m, 16, 64, (const int[]){16, 48, 48, 48, 16, 0}); /* the first bucket is always small */
    make(&m, 3, (const int[]){7, 165, 9}, NULL);
    expect(&m, 16, 64, (const int[]){16, 48, 48, 48, 21, 0});
}

TEST(test_slabs_and_frozen)
{
    made m;
    make(&m, 8, (const int[]){16, 16, 33, 1, 0, 20, 30, 0}, (const int[]){0, 0, 0, 1, 1, 2, 2, 2});
    expect(&m, 32, 1000, (const int[]){32, 33, 1, 50, 0}); /* no bucket reaches over the end of a slab */
    make(&m, 4, (const int[]){0, 0, 0, 0}, NULL);
    expect(&m, 2, 100, (const int[]){0});
}

/* A parameter that is ready late holds back all buckets after it: ranks sum buckets in one order. */
TEST(test_ready_never_falls)
{
    made m;
    make(&m, 4, (const int[]){16, 16, 16, 16}, NULL);
    m.ready[1] = 500;
    expect(&m, 1, 1, (const int[]){16, 16, 16, 16, 0});
    m.ready[3] = 501;
    expect(&m, 1, 1, (const int[]){16, 16, 16, 16, 0});
}

/* The positions in a phase of the host commands with this code; there is one for each sum, in the order of
 * the sums. */
static size_t *find_host(const clt_plan *plan, clt_phase phase, clt_host_code code)
{
    const ocl_command_list *list = &plan->phase[phase];
    size_t *at = calloc(plan->n_sums, sizeof *at), n = 0;
    assert_non_null(at);
    for (size_t c = 0; c < list->count; c++) {
        if (list->commands[c].kind != OCL_CMD_HOST || list->commands[c].host_code != (int32_t)code)
            continue;
        assert_int_equal(list->commands[c].args[0].ref.tensor, plan->sums[n].tensor);
        assert_int_equal(list->commands[c].args[1].value.u32, n);
        at[n++] = c;
    }
    assert_int_equal(n, plan->n_sums);
    return at;
}

/* Whether the tensor is a gradient with elements in the bucket. */
static bool is_in(const clt_plan *plan, const clt_bucket *bucket, int32_t tensor)
{
    const clt_place *place = &plan->place[tensor];
    uint64_t first = bucket->range.first * sizeof(float), bytes = bucket->range.elements * sizeof(float);
    return place->kind == CLT_PLACE_STORE && place->arena == CLT_ARENA_GRAD &&
           place->slab == bucket->range.slab && place->offset < first + bytes &&
           first < place->offset + place->bytes;
}

/* With options.tree the sums of earlier micro-batches are added to each bucket just before it is posted. */
static void check_combine(const clt_plan *plan, const size_t *at)
{
    const ocl_command_list *list = &plan->phase[CLT_PHASE_BACKWARD];
    size_t sums = 0;
    for (size_t c = 0; c < list->count; c++)
        sums += strcmp(list->commands[c].label, "combine") == 0;
    assert_int_equal(sums, plan->n_sums);
    assert_string_equal(list->commands[at[0] - 1].label, "combine");
    assert_int_equal(list->commands[at[0] - 1].args[0].ref.tensor, plan->losses);
    for (size_t b = 0; b < plan->n_buckets; b++) {
        const ocl_command *combine = &list->commands[at[1 + b] - 1];
        const clt_range *range = &plan->buckets[b].range;
        assert_string_equal(combine->label, "combine");
        assert_int_equal(combine->n_args,
                         4 + plan->store->levels); /* value, step block, levels, factor, count */
        for (int a = 0; a < 2 + plan->store->levels; a++) {
            const clt_place *place = &plan->place[combine->args[a].ref.tensor];
            if (a == 1)
                continue;
            assert_int_equal(place->arena, a == 0 ? CLT_ARENA_GRAD : CLT_ARENA_LEVEL1 + a - 2);
            assert_int_equal(place->slab, range->slab);
            assert_int_equal(place->offset, range->first * sizeof(float));
            assert_int_equal(place->bytes, range->elements * sizeof(float));
        }
    }
}

/* No command uses a bucket's gradients, or the loss records, after they are posted, and some command uses
 * them before. */
static void check_posts(const clt_plan *plan, clt_phase phase)
{
    const ocl_command_list *list = &plan->phase[phase];
    CLT_FREED size_t *at = find_host(plan, phase, CLT_HOST_POST);
    CLT_FREED bool *used = calloc(plan->n_buckets, sizeof *used);
    assert_non_null(used);
    for (size_t c = 0; c < list->count; c++)
        for (int a = 0; a < list->commands[c].n_args && list->commands[c].kind != OCL_CMD_HOST; a++) {
            const ocl_arg *arg = &list->commands[c].args[a];
            if (!is_tensor(arg))
                continue;
            if (owner_of(plan, arg->ref.tensor) == plan->losses && c > at[0])
                fail_msg("'%s' uses the losses after they were posted", list->commands[c].label);
            for (size_t b = 0; b < plan->n_buckets; b++)
                if (is_in(plan, &plan->buckets[b], arg->ref.tensor)) {
                    used[b] = true;
                    if (c > at[1 + b])
                        fail_msg("'%s' uses bucket %zu after it was posted", list->commands[c].label, b);
                }
        }
    for (size_t b = 0; b < plan->n_buckets; b++)
        assert_true(used[b]);
}

/* The partial norms of a bucket are computed as soon as its sum has arrived, and are the same ones that a
 * single command for the whole slab would compute. */
static void check_norms(const clt_plan *plan)
{
    const ocl_command_list *list = &plan->phase[CLT_PHASE_SYNC];
    CLT_FREED size_t *at = find_host(plan, CLT_PHASE_SYNC, CLT_HOST_WAIT);
    size_t bucket = 0;
    uint64_t end = 0;
    for (size_t c = 0; c < list->count; c++) {
        const ocl_command *command = &list->commands[c];
        if (strcmp(command->label, "update.norm") != 0)
            continue;
        assert_true(bucket < plan->n_buckets);
        const clt_range *range = &plan->buckets[bucket].range;
        const clt_place *read = &plan->place[command->args[0].ref.tensor];
        assert_true(c > at[1 + bucket] && (2 + bucket == plan->n_sums || c < at[2 + bucket]));
        assert_int_equal(read->arena, CLT_ARENA_GRAD);
        assert_int_equal(read->slab, range->slab);
        assert_int_equal(read->offset, range->first * sizeof(float));
        assert_int_equal(read->bytes, range->elements * sizeof(float));
        assert_int_equal(command->args[1].ref.offset, end);
        end += command->args[1].bytes;
        bucket++;
    }
    assert_int_equal(bucket, plan->n_buckets);
    for (size_t c = 0; c < plan->phase[CLT_PHASE_UPDATE].count; c++)
        assert_string_not_equal(plan->phase[CLT_PHASE_UPDATE].commands[c].label, "update.norm");
}

static void check_plan_buckets(clt_graph *graph, int accumulation, uint64_t max_alloc, clt_dtype wire,
                               bool several, bool tree)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(accumulation);
    if (max_alloc)
        desc.max_alloc_bytes = max_alloc;
    options.ranks = 2;
    options.wire = wire;
    options.tree = tree;
    options.buckets = (clt_bucket_sizes){4 * CHUNK_BYTES, 60 * CHUNK_BYTES};
    CLT_SCOPED(clt_plan) *plan = plan_of(graph, &desc, &options);
    assert_true(plan->n_buckets > (several ? 2 : 0));
    assert_int_equal(plan->n_sums, 1 + plan->n_buckets);
    check_table(plan->store, options.buckets, plan->buckets, plan->n_buckets);
    check_posts(plan, CLT_PHASE_BACKWARD);
    assert_int_equal(plan->phase[CLT_PHASE_BACKWARD_ADD].count > 0, accumulation > 1 && !tree);
    if (accumulation > 1 && !tree)
        check_posts(plan, CLT_PHASE_BACKWARD_ADD);
    CLT_FREED size_t *posts = find_host(plan, CLT_PHASE_BACKWARD, CLT_HOST_POST);
    if (tree)
        check_combine(plan, posts);
    check_norms(plan);
    /* the first buckets are posted long before the backward pass ends */
    assert_true(!several ||
                posts[1] + (tree ? 2 : 1) * plan->n_sums + 1 < plan->phase[CLT_PHASE_BACKWARD].count);
    assert_int_equal(plan->phase[CLT_PHASE_SEND].count, wire == CLT_F32 ? 0 : plan->n_buckets);
    check_plan(plan, desc.max_alloc_bytes);
}

TEST(test_plans)
{
    for (size_t i = 0; i < N_NETS; i++)
        for (int form = 0; form < 4; form++)
            check_plan_buckets(makers[i](), form & 1 ? 3 : 1, form & 2 ? 704 << 10 : 0,
                               form < 2 ? CLT_BF16 : CLT_F32, true, false);
    check_plan_buckets(net_frozen(1).graph, 1, 0, CLT_F32, false, false);
}

TEST(test_plans_with_a_tree)
{
    for (size_t i = 0; i < N_NETS; i++)
        for (int accumulation = 2; accumulation <= 4; accumulation *= 2)
            check_plan_buckets(makers[i](), accumulation, i % 2 ? 704 << 10 : 0, CLT_F32, true, true);
}

/* On a single rank the sums of earlier micro-batches are added at the end of the backward pass, one slab
 * per command. */
TEST(test_tree_of_one_rank)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(4);
    options.tree = true;
    CLT_SCOPED(clt_plan) *plan = plan_of(net_deep(), &desc, &options);
    const ocl_command_list *list = &plan->phase[CLT_PHASE_BACKWARD];
    assert_true(list->count > 2);
    for (size_t c = 0; c < list->count; c++)
        assert_int_equal(strcmp(list->commands[c].label, "combine") == 0, c + 2 >= list->count);
    assert_int_equal(plan->phase[CLT_PHASE_BACKWARD_ADD].count, 0);
    check_plan(plan, desc.max_alloc_bytes);
}

/* Two layers share a matrix: its gradient is ready when the later layer has added to it, and no sooner. */
TEST(test_shared_parameter)
{
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
        net n = net_make(8, 16);
        clt_node *shared;
        CLT_SCOPED(clt_json_doc) *doc = NULL;
        put_linear(&n, "early", 16);
        put(&n, "tanh", "bend", NULL);
        put_linear(&n, "middle", 16);
        must(clt_json_parse("{\"out\": 16}", 11, "test", CLT_ECONFIG, &doc), "json");
        must(clt_graph_add(n.graph, "linear", "late", clt_json_root(doc), doc, &n.at, 1, "early", &shared),
             "share");
        n.at = shared->out[0];
        put_loss(&n);
        check_plan_buckets(n.graph, accumulation, 0, CLT_F32, false, false);
    }
}

/* The memory through which gradients are copied: host memory beside a device, part of a CPU device's
 * memory, or none. */
TEST(test_memory)
{
    uint64_t staging[2] = {0};
    for (int form = 0; form < 3; form++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        options.ranks = 2;
        options.wire = CLT_BF16;
        options.buckets = (clt_bucket_sizes){CHUNK_BYTES, CHUNK_BYTES};
        options.shared_memory = form < 2;
        desc.is_cpu = form > 0;
        CLT_SCOPED(clt_plan) *plan = plan_of(net_deep(), &desc, &options);
        clt_memory_report r = clt_plan_memory(plan, NULL);
        uint64_t gradients = plan->store->trainable_elements[0] * 2;
        uint64_t losses = 4 * sizeof(float); /* the host always has a copy of the loss records */
        assert_int_equal(r.host, form == 0 ? gradients + losses : 0);
        if (form < 2)
            staging[form] = r.staging;
        assert_int_equal(form == 0 ? 0 : staging[1] - staging[0], form == 0 ? 0 : losses);
        assert_int_equal(r.staging, staging[0] + (form == 0 ? 0 : losses) + (form == 2 ? gradients : 0));
        assert_int_equal(r.total, r.params + r.gradients + r.optimizer + r.state + r.inputs + r.activations +
                                      r.staging);
    }
}

TEST(test_one_rank_has_none)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    CLT_SCOPED(clt_plan) *plan = plan_of(net_deep(), &desc, &options);
    assert_int_equal(plan->n_buckets, 0);
}

TEST_PROGRAM(.set_up = hide_drivers);
