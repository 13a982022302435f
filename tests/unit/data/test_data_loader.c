/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader compared with its definition: which sample is where for any number of ranks, accumulation
 * steps and threads; resume, evaluation, normalisers, errors, early end. The data source is part of the
 * test, so that it can be slow, fail and count calls. ctest-labels: quick */
#include "tests/unit/data/data_test.h"

#include <stdatomic.h>
#include <time.h>

#include "engine/base/rng.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/train/job/job.h"

/* Sample i has x = i (i32) and y = {i % 7, (i*i) % 5} (u8). */
typedef struct probe {
    clt_source source;
    bool jitter;                    /* reads take random times */
    int64_t fail_at;                /* index whose read fails, -1 none */
    int64_t slow_ns;                /* every read takes this long */
    atomic_int reads;               /* of field 0 */
    atomic_int reads_alone;         /* reads of field 1 without field 0, which count targets */
    bool draws;                     /* y contains the draw */
    bool fails_from;                /* reads from index fail_at on fail, too */
    bool gated;                     /* reads wait until `open` is set */
    int meet;                       /* the first `meet` reads wait for each other; 0: none waits */
    atomic_int inside, most_inside; /* reads that wait or sleep now, and their maximum */
    atomic_bool open;
} probe;

static void nap(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

/* Makes a read take its time: waits for other reads, for the gate, then sleeps. */
static void linger(probe *p, int count)
{
    int here = atomic_fetch_add(&p->inside, 1) + 1, most = atomic_load(&p->most_inside);
    while (here > most && !atomic_compare_exchange_weak(&p->most_inside, &most, here))
        continue;
    while (count < p->meet && atomic_load(&p->most_inside) < p->meet)
        nap(100000);
    while (p->gated && !atomic_load(&p->open))
        nap(100000);
    nap(p->slow_ns);
    atomic_fetch_sub(&p->inside, 1);
}

/* x: the sample's number. y: two bytes that follow from it; with `draws` the second byte holds seed and
 * epoch of the draw instead. */
static clt_status probe_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    probe *p = source->state;
    if (index == p->fail_at || (p->fails_from && index > p->fail_at))
        CLT_FAIL(CLT_EDATA, "reading sample %lld of 'probe': it is broken", (long long)index);
    if (to[0]) {
        int32_t value = (int32_t)index;
        memcpy(to[0], &value, 4);
        int count = atomic_fetch_add(&p->reads, 1);
        if (p->slow_ns || p->gated || p->meet)
            linger(p, count);
        else if (p->jitter && count % 3 == 0)
            nap((int64_t)clt_rng_u32(1, CLT_RNG_VERIFY, 0, 0, (uint64_t)count) % 60000);
    }
    if (to[1] && !to[0] && atomic_fetch_add(&p->reads_alone, 1) % 4 == 0 && p->jitter)
        nap(20000);
    if (to[1]) {
        uint8_t y[2] = {(uint8_t)(index % 7), (uint8_t)(index * index % 5)};
        if (p->draws)
            y[1] = (uint8_t)(draw.seed * 16 + draw.epoch);
        memcpy(to[1], y, 2);
    }
    return CLT_OK;
}

static bool probe_left_out(const clt_source *source, int64_t index)
{
    (void)source;
    return index % 5 == 3 || index == 0;
}

static const clt_config_part probe_format = {.name = "probe", .help = "probe"};
static const clt_source_type probe_type = {.format = &probe_format, .read = probe_read};

static const clt_source_type leaving_type = {
    .format = &probe_format, .read = probe_read, .left_out = probe_left_out};

static void make_probe(probe *p, int64_t samples)
{
    memset(p, 0, sizeof *p);
    p->source.type = &probe_type;
    p->source.n_fields = 2;
    p->source.fields[0] = (clt_source_field){"x", CLT_I32, {.ndim = 0}, true, samples - 1};
    p->source.fields[1] = (clt_source_field){"y", CLT_U8, clt_shape1(2), true, 6};
    p->source.samples = samples;
    p->source.description = "probe";
    p->source.state = p;
    p->fail_at = -1;
}

#define MAX_SLOTS 8
#define MAX_BATCH 64
typedef struct bench {
    probe probe;
    clt_graph graph;
    clt_field fields[2];
    clt_loader_options options;
    void *slots[MAX_SLOTS];
    uint8_t memory[MAX_SLOTS][MAX_BATCH * 8];
} bench;

/* Sets the rank's share of the samples, divided as trainings do. */
static void be_rank(bench *b, int rank)
{
    clt_loader_options *o = &b->options;
    const clt_job job = {.micro_batch = o->micro_batch, .global_batch = o->global_batch, .ranks = o->ranks};
    o->rank = rank;
    o->accumulation = clt_job_share(&job, rank, &o->first_micro);
}

/* y comes first in a slot, and the graph has its fields in the other order, so that offsets and mapping
 * matter. */
static void make_bench(bench *b, int64_t samples, int64_t micro_batch, int accumulation, int ranks)
{
    memset(b, 0, sizeof *b);
    make_probe(&b->probe, samples);
    b->fields[0] = (clt_field){.name = "y", .dtype = CLT_U8, .shape = clt_shape1(2), .tensor = 1};
    b->fields[1] = (clt_field){.name = "x", .dtype = CLT_I32};
    b->graph.fields = b->fields;
    b->graph.n_fields = 2;
    b->graph.micro_batch = micro_batch;
    for (int i = 0; i < MAX_SLOTS; i++)
        b->slots[i] = b->memory[i];
    b->options = (clt_loader_options){.source = &b->probe.source,
                                      .n_fields = 2,
                                      .source_field = {1, 0},
                                      .offset = {0, MAX_BATCH * 4},
                                      .micro_batch = micro_batch,
                                      .global_batch = micro_batch * accumulation * ranks,
                                      .accumulation = accumulation,
                                      .ranks = ranks,
                                      .seed = 99,
                                      .shuffle = true,
                                      .graph = &b->graph,
                                      .workers = 2,
                                      .n_slots = 3,
                                      .slots = b->slots,
                                      .slot_bytes = sizeof b->memory[0]};
}

static clt_loader *open_loader(const bench *b)
{
    clt_loader *loader = NULL;
    if (clt_loader_create(&b->options, &loader) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return loader;
}

static int32_t slot_x(const clt_slot *slot, int64_t i)
{
    int32_t x;
    memcpy(&x, (const char *)slot->data + MAX_BATCH * 4 + 4 * i, 4);
    return x;
}

static void check_slot(const bench *b, const clt_slot *slot, int64_t ticket)
{
    const clt_loader_options *o = &b->options;
    assert_int_equal(slot->step, o->first_step + ticket / o->accumulation);
    assert_int_equal(slot->micro, ticket % o->accumulation);
    assert_int_equal(slot->sample_base, (o->first_micro + slot->micro) * o->micro_batch);
    assert_int_equal(slot->valid_samples, o->micro_batch);
    assert_int_equal(slot->error.status, CLT_OK);
    assert_true(slot->load_seconds >= 0 && slot->index >= 0 && slot->index < o->n_slots);
    assert_ptr_equal(slot->data, b->slots[slot->index]);
    for (int64_t i = 0; i < o->micro_batch; i++) {
        uint64_t position = (uint64_t)(slot->step * o->global_batch) + slot->sample_base + (uint64_t)i;
        int64_t want = clt_sample_index(position, o->source->samples, o->seed, o->shuffle);
        assert_int_equal(slot_x(slot, i), want);
        assert_int_equal(((uint8_t *)slot->data)[2 * i], want % 7);
        int64_t drawn = (int64_t)(o->seed * 16 + position / (uint64_t)o->source->samples) & 255;
        assert_int_equal(((uint8_t *)slot->data)[2 * i + 1], b->probe.draws ? drawn : want * want % 5);
    }
}

/* Reads a stream to its end, checks every slot, notes every sample. */
static void drain(const bench *b, int *seen)
{
    const clt_loader_options *o = &b->options;
    clt_loader *loader = open_loader(b);
    clt_slot *slot = NULL;
    int64_t ticket = 0;
    for (;; ticket++) {
        assert_ok(clt_loader_next(loader, &slot));
        if (!slot)
            break;
        check_slot(b, slot, ticket);
        for (int64_t i = 0; seen && i < o->micro_batch; i++)
            seen[slot_x(slot, i)]++;
        clt_loader_release(loader, slot);
    }
    assert_int_equal(ticket, (o->last_step - o->first_step) * o->accumulation);
    assert_ok(clt_loader_next(loader, &slot)); /* the end stays the end */
    assert_null(slot);
    clt_loader_destroy(loader);
}

TEST(test_every_sample_once)
{
    static const int workers[] = {1, 2, 5};
    static bench b;
    for (int ranks = 1; ranks <= 7; ranks++)
        for (int parts = ranks; parts <= 2 * ranks + 1; parts++)
            for (size_t w = 0; w < sizeof workers / sizeof workers[0]; w++) {
                int seen[256] = {0};
                int64_t global = 3 * parts, samples = 4 * global;
                for (int rank = 0; rank < ranks; rank++) {
                    make_bench(&b, samples, 3, 1, ranks);
                    b.probe.jitter = workers[w] > 1 && rank == 0;
                    b.options.global_batch = global;
                    be_rank(&b, rank);
                    b.options.workers = workers[w];
                    b.options.n_slots = 2 + (int)w;
                    b.options.last_step = 8; /* two epochs */
                    drain(&b, seen);
                }
                for (int64_t i = 0; i < samples; i++)
                    assert_int_equal(seen[i], 2);
            }
}

/* Ranks take neighbouring samples, as equal in number as possible, and together take the whole step. */
TEST(test_shares)
{
    for (int ranks = 1; ranks <= 9; ranks++)
        for (int64_t all = ranks; all <= 5 * ranks; all++) {
            const clt_job job = {.micro_batch = 6, .global_batch = 6 * all, .ranks = ranks};
            int64_t next = 0, first;
            for (int rank = 0; rank < ranks; rank++) {
                int32_t count = clt_job_share(&job, rank, &first);
                assert_int_equal(first, next);
                assert_true(count == all / ranks || count == (all + ranks - 1) / ranks);
                next += count;
            }
            assert_int_equal(next, all);
        }
}

/* A run that continues with another number of ranks still sees every sample once in each epoch. */
TEST(test_changing_ranks)
{
    static const int ranks[] = {4, 3, 1, 4};
    static bench b;
    int seen[256] = {0};
    for (int part = 0; part < 4; part++)
        for (int rank = 0; rank < ranks[part]; rank++) {
            make_bench(&b, 60, 2, 1, ranks[part]);
            b.options.global_batch = 10; /* five micro-batches */
            be_rank(&b, rank);
            b.options.first_step = 3 * part;
            b.options.last_step = 3 * part + 3;
            drain(&b, seen);
        }
    for (int64_t i = 0; i < 60; i++)
        assert_int_equal(seen[i], 2); /* 12 steps of 10: two epochs */
}

/* Epochs need not end at the end of a batch, and a data set may be smaller than a batch. */
TEST(test_odd_sizes)
{
    static const int64_t sizes[] = {1, 2, 5, 13, 31};
    static bench b;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int seen[256] = {0};
        make_bench(&b, sizes[s], 4, 2, 1);
        b.options.last_step = sizes[s]; /* 8 epochs in all */
        drain(&b, seen);
        for (int64_t i = 0; i < sizes[s]; i++)
            assert_int_equal(seen[i], 8);
    }
}

/* check_slot compares with the pure function, so a stream that begins anywhere is the tail of the whole one.
 */
TEST(test_resume)
{
    static bench b;
    int whole[64] = {0}, parts[64] = {0};
    make_bench(&b, 50, 4, 2, 1);
    b.options.last_step = 11;
    drain(&b, whole);
    for (int64_t cut = 0; cut <= 11; cut += 11) {
        memset(parts, 0, sizeof parts);
        b.options.first_step = 0;
        b.options.last_step = 4 + cut / 3;
        drain(&b, parts);
        b.options.first_step = b.options.last_step;
        b.options.last_step = 11;
        drain(&b, parts);
        assert_memory_equal(whole, parts, sizeof whole);
    }
    b.options.first_step = b.options.last_step = 11; /* nothing left */
    drain(&b, parts);
    b.options.first_step = 1000000007; /* far out: positions beyond 2^32 */
    b.options.last_step = 1000000009;
    drain(&b, parts);
    b.options.shuffle = false;
    drain(&b, parts);
}

/* Weights of the classes 0 to 4; values of 5 and 6 are not classes. The weights add up without rounding. */
static const float class_weights[5] = {0.5f, 2, 0, 8, 0.25f};

static double weight_of(int64_t value, int64_t ignore)
{
    return value < 5 && value != ignore ? (double)class_weights[value] : 0;
}

TEST(test_evaluation)
{
    static bench b;
    for (int64_t samples = 1; samples <= 13; samples++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            int seen[16] = {0};
            for (int rank = 0; rank < ranks; rank++) {
                make_bench(&b, samples, 4, 1, ranks);
                b.options.evaluation = true;
                b.options.rank = rank;
                b.graph.n_losses = 2;
                b.graph.losses[0] =
                    (clt_loss){.name = "l", .target_field = "y", .has_ignore = true, .ignore_index = 0};
                b.graph.losses[1] = (clt_loss){
                    .name = "w", .target_field = "y", .class_weights = class_weights, .n_classes = 5};
                clt_loader *loader = open_loader(&b);
                clt_slot *slot = NULL;
                int64_t turn = 0;
                for (;; turn++) {
                    assert_ok(clt_loader_next(loader, &slot));
                    if (!slot)
                        break;
                    assert_int_equal(slot->step, turn * ranks + rank);
                    assert_int_equal(slot->micro, 0);
                    assert_int_equal(slot->sample_base, slot->step * 4);
                    assert_true(slot->normaliser[0] == 1.0);
                    assert_true(slot->valid_samples >= 1 && slot->valid_samples <= 4);
                    assert_true(slot->valid_samples == 4 || slot->step == (samples - 1) / 4);
                    double weights = 0;
                    for (int64_t i = 0; i < slot->valid_samples; i++) {
                        int64_t s = slot->step * 4 + i;
                        weights += weight_of(s % 7, -1) + weight_of(s * s % 5, -1);
                    }
                    assert_true(slot->normaliser[1] == 1.0 && slot->class_weights[0] == 0);
                    assert_true(slot->class_weights[1] == weights);
                    for (int64_t i = 0; i < 4; i++) {
                        if (i < slot->valid_samples)
                            seen[slot_x(slot, i)]++;
                        assert_int_equal(slot_x(slot, i), i < slot->valid_samples ? slot->step * 4 + i : 0);
                    }
                    clt_loader_release(loader, slot);
                }
                clt_loader_destroy(loader);
            }
            for (int64_t i = 0; i < samples; i++)
                assert_int_equal(seen[i], 1);
        }
}

TEST(an_evaluation_leaves_bad_samples_out)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        int seen[23] = {0};
        int64_t left_out = 0;
        double weights = 0, want = 0;
        for (int rank = 0; rank < ranks; rank++) {
            static bench b;
            make_bench(&b, 23, 2, 1, ranks);
            b.probe.source.type = &leaving_type;
            b.options.evaluation = true;
            b.options.rank = rank;
            b.graph.n_losses = 1;
            b.graph.losses[0] =
                (clt_loss){.name = "w", .target_field = "y", .class_weights = class_weights, .n_classes = 5};
            clt_loader *loader = open_loader(&b);
            clt_slot *slot = NULL;
            while (clt_loader_next(loader, &slot) == CLT_OK && slot) {
                for (int64_t i = 0; i < slot->valid_samples; i++)
                    seen[slot_x(slot, i)]++;
                left_out += slot->left_out;
                weights += slot->class_weights[0];
                clt_loader_release(loader, slot);
            }
            clt_loader_destroy(loader);
        }
        for (int64_t i = 0; i < 23; i++) {
            bool bad = probe_left_out(NULL, i);
            assert_int_equal(seen[i], !bad);
            want += bad ? 0 : weight_of(i % 7, -1) + weight_of(i * i % 5, -1);
        }
        assert_int_equal(left_out, 5);
        assert_true(weights == want);
    }
}

TEST(test_normalisers)
{
    static bench b;
    enum { SAMPLES = 29, MICRO = 3, ACC = 2, RANKS = 2, G = MICRO * ACC * RANKS };
    for (int rank = 0; rank < RANKS; rank++)
        for (int workers = 1; workers <= 4; workers += 3) {
            make_bench(&b, SAMPLES, MICRO, ACC, RANKS);
            b.options.rank = rank;
            b.options.workers = workers;
            b.options.last_step = 40; /* more than the loader remembers */
            b.graph.n_losses = 5;
            b.graph.losses[0] = (clt_loss){.name = "plain", .target_field = "y", .targets_per_sample = 2};
            b.graph.losses[1] = (clt_loss){.name = "some",
                                           .target_field = "y",
                                           .has_ignore = true,
                                           .ignore_index = 1,
                                           .targets_per_sample = 2};
            b.graph.losses[2] = (clt_loss){.name = "none",
                                           .target_field = "x",
                                           .has_ignore = true,
                                           .ignore_index = -100,
                                           .targets_per_sample = 1};
            b.graph.losses[3] = (clt_loss){.name = "weighted",
                                           .target_field = "y",
                                           .targets_per_sample = 2,
                                           .class_weights = class_weights,
                                           .n_classes = 5};
            b.graph.losses[4] = b.graph.losses[3];
            b.graph.losses[4].has_ignore = true;
            b.graph.losses[4].ignore_index = 3;
            clt_loader *loader = open_loader(&b);
            clt_slot *slot = NULL;
            int64_t least = INT64_MAX, most = 0;
            for (int64_t ticket = 0; ticket < 40 * ACC; ticket++) {
                int64_t valid = 0;
                double weighted = 0, some = 0;
                assert_ok(clt_loader_next(loader, &slot));
                check_slot(&b, slot, ticket);
                for (int64_t i = 0; i < G; i++) {
                    int64_t s = clt_sample_index((uint64_t)(slot->step * G + i), SAMPLES, 99, true);
                    valid += (s % 7 != 1) + (s * s % 5 != 1);
                    weighted += weight_of(s % 7, -1) + weight_of(s * s % 5, -1);
                    some += weight_of(s % 7, 3) + weight_of(s * s % 5, 3);
                }
                assert_true(slot->normaliser[0] == 2.0 * G);
                assert_true(slot->normaliser[1] == (double)valid);
                assert_true(slot->normaliser[2] == (double)G);
                assert_true(slot->normaliser[3] == weighted && slot->normaliser[4] == some);
                least = valid < least ? valid : least;
                most = valid > most ? valid : most;
                clt_loader_release(loader, slot);
            }
            assert_true(least < most); /* the count does change from step to step */
            clt_loader_destroy(loader);
        }
    /* a loss whose normaliser counts a field that no batch carries */
    clt_loader *loader = NULL;
    b.graph.losses[1].target_field = "z";
    assert_int_equal(clt_loader_create(&b.options, &loader), CLT_ECONFIG);
    expect_words("\"some\"|\"z\"");
    assert_null(loader);
}

/* The normalisers of 20 steps; returns how often targets were read only to be counted. */
static int count_targets(int accumulation, int ranks, int workers, double value[20][2])
{
    static bench b;
    static const float weights[5] = {0.1f, 0.7f, 1.3f, 0.05f, 3.1f};
    make_bench(&b, 29, 12 / accumulation / ranks, accumulation, ranks);
    b.options.workers = workers;
    b.options.n_slots = 6;
    b.options.last_step = 20;
    b.probe.jitter = true;
    b.graph.n_losses = 2;
    b.graph.losses[0] = (clt_loss){
        .name = "w", .target_field = "y", .targets_per_sample = 2, .class_weights = weights, .n_classes = 5};
    b.graph.losses[1] = (clt_loss){.name = "i", .target_field = "y", .has_ignore = true, .ignore_index = 1};
    clt_loader *loader = open_loader(&b);
    clt_slot *slot = NULL;
    for (int64_t ticket = 0; ticket < (int64_t)20 * accumulation; ticket++) {
        assert_ok(clt_loader_next(loader, &slot));
        check_slot(&b, slot, ticket);
        memcpy(value[slot->step], slot->normaliser, sizeof value[0]);
        clt_loader_release(loader, slot);
    }
    clt_loader_destroy(loader);
    return atomic_load(&b.probe.reads_alone);
}

/* A slot that holds a whole step is counted without further reads; in other steps each target is read once
 * for each loss, however many threads and micro-batches need the result. All ways give the same bits. */
TEST(test_targets_are_counted_once)
{
    double whole[20][2], other[20][2];
    assert_int_equal(count_targets(1, 1, 1, whole), 0);
    for (int workers = 1; workers <= 8; workers += 7) {
        assert_int_equal(count_targets(1, 1, workers, other), 0);
        assert_memory_equal(whole, other, sizeof whole);
        for (int accumulation = 1; accumulation <= 6; accumulation++)
            for (int ranks = accumulation == 1 ? 2 : 1; 12 % (accumulation * ranks) == 0 && ranks <= 2;
                 ranks++) {
                assert_int_equal(count_targets(accumulation, ranks, workers, other), 20 * 12 * 2);
                assert_memory_equal(whole, other, sizeof whole);
            }
    }
}

/* Tracing a slot adds at most one span for each thread, whatever the number of pieces in which it was
 * filled. */
TEST(test_spans)
{
    static bench b;
    enum { STEPS = 50, WORKERS = 4 };
    size_t count;
    uint64_t lost;
    make_bench(&b, 200, 64, 1, 1);
    b.options.workers = WORKERS;
    b.options.last_step = STEPS;
    b.probe.slow_ns = 200000;
    assert_ok(clt_spans_create(64 * STEPS, &b.options.spans));
    clt_spans_open(b.options.spans, true);
    drain(&b, NULL);
    const clt_span *span = clt_spans_list(b.options.spans, &count, &lost);
    int of_step[STEPS][WORKERS] = {{0}};
    assert_true(lost == 0 && count >= STEPS);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(span[i].name, "load");
        assert_true(span[i].id >= 1 && span[i].id <= STEPS && span[i].end > span[i].begin);
        int worker = span[i].track - CLT_TRACK_LOADER;
        assert_true(worker >= 0 && worker < WORKERS);
        assert_int_equal(of_step[span[i].id - 1][worker]++, 0);
    }
    for (int step = 0, some = 0; step < STEPS; step++, some = 0) {
        for (int i = 0; i < WORKERS; i++)
            some += of_step[step][i];
        assert_true(some >= 1);
    }
    clt_spans_destroy(b.options.spans);
}

/* Returns once the counter has reached `count`. */
static void await_count(atomic_int *counter, int count)
{
    while (atomic_load(counter) < count)
        nap(2000000);
}

typedef struct consumer {
    clt_loader *loader;
    int64_t slots;
    clt_status status;
    atomic_bool *end;     /* set when it ends, or NULL */
    atomic_int thread_id; /* 0 until it runs */
} consumer;

static void *consume(void *context)
{
    consumer *c = context;
    clt_slot *slot = NULL;
    atomic_store(&c->thread_id, (int)gettid());
    while ((c->status = clt_loader_next(c->loader, &slot)) == CLT_OK && slot) {
        c->slots++;
        clt_loader_release(c->loader, slot);
    }
    if (c->end)
        atomic_store(c->end, true);
    return NULL;
}

static void *destroy(void *context)
{
    consumer *c = context;
    atomic_store(&c->thread_id, (int)gettid());
    clt_loader_destroy(c->loader);
    return NULL;
}

/* Returns once the thread has been seen asleep five times in a row, that is, waits inside the loader. */
static void await_sleep(consumer *c)
{
    for (int asleep = 0; asleep < 5;) {
        char path[64], line[256] = "";
        nap(2000000);
        (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&c->thread_id));
        FILE *file = atomic_load(&c->thread_id) ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        const char *got = fgets(line, sizeof line, file);
        (void)fclose(file);
        const char *end = got ? strrchr(line, ')') : NULL;
        asleep = end && strncmp(end, ") S", 3) == 0 ? asleep + 1 : 0;
    }
}

TEST(test_destroy_early)
{
    static bench b;
    clt_loader_destroy(NULL);
    for (int take = 0; take < 6; take++)
        for (int keep = 0; keep < 2; keep++) {
            make_bench(&b, 100, 8, 1, 1);
            b.probe.jitter = true;
            b.options.workers = 3;
            b.options.last_step = 1000000;
            clt_loader *loader = open_loader(&b);
            clt_slot *slot = NULL;
            for (int i = 0; i < take; i++) {
                assert_ok(clt_loader_next(loader, &slot));
                if (!keep || i + 1 < take)
                    clt_loader_release(loader, slot);
            }
            clt_loader_destroy(loader);
        }
}

/* A long fill is abandoned: each thread stops after the sample that it is reading when the loader ends. */
TEST(test_fill_is_given_up)
{
    static bench b;
    for (int workers = 1; workers <= 2; workers++) {
        make_bench(&b, 100, 64, 1, 1);
        b.probe.gated = true;
        b.options.workers = workers;
        b.options.last_step = 10;
        consumer c = {.loader = open_loader(&b)};
        clt_thread *thread = NULL;
        await_count(&b.probe.inside, workers);
        assert_ok(clt_thread_start(&thread, "destroyer", destroy, &c));
        await_sleep(&c); /* destroy waits for the threads */
        atomic_store(&b.probe.open, true);
        clt_thread_join(thread);
        assert_int_equal(atomic_load(&b.probe.reads), workers);
    }
}

/* The random choices for a sample follow from its epoch and the seed, not from the rank or thread that
 * loads it, nor from the step at which a run resumed. */
TEST(test_draws)
{
    static bench b;
    for (int workers = 1; workers <= 4; workers += 3)
        for (int64_t first = 0; first < 20; first += 13) {
            make_bench(&b, 20, 3, 2, 1);
            b.probe.draws = true;
            b.probe.jitter = workers > 1;
            b.options.workers = workers;
            b.options.first_step = first;
            b.options.last_step =
                23; /* into the seventh epoch, whose first samples share a batch with the sixth's */
            drain(&b, NULL);
        }
    make_bench(&b, 20, 4, 1, 1);
    b.probe.draws = b.options.evaluation = true;
    b.options.last_step = 100;
    clt_loader *loader = open_loader(&b);
    clt_slot *slot = NULL;
    for (int again = 0; again < 5; again++) {
        assert_ok(clt_loader_next(loader, &slot));
        assert_non_null(slot);
        assert_int_equal(((uint8_t *)slot->data)[1], b.options.seed * 16 & 255);
        clt_loader_release(loader, slot);
    }
    clt_loader_destroy(loader);
}

TEST(test_error_travels)
{
    static bench b;
    for (int workers = 1; workers <= 4; workers++) {
        make_bench(&b, 40, 4, 1, 1);
        b.options.shuffle = false;
        b.options.workers = workers;
        b.options.n_slots = 4;
        b.options.last_step = 100;
        b.probe.fail_at = 22; /* batch 5 */
        clt_loader *loader = open_loader(&b);
        clt_slot *slot = NULL;
        for (int64_t k = 0; k < 5; k++) { /* everything before the bad batch arrives */
            assert_ok(clt_loader_next(loader, &slot));
            check_slot(&b, slot, k);
            clt_loader_release(loader, slot);
        }
        for (int again = 0; again < 3; again++) {
            clt_error_clear();
            assert_int_equal(clt_loader_next(loader, &slot), CLT_EDATA);
            assert_null(slot);
            expect_words("batch 5|sample 22 of 'probe'|broken");
        }
        clt_loader_destroy(loader);
    }
    /* a sample that a rank only counts, since another rank loads it */
    make_bench(&b, 40, 4, 1, 2);
    b.options.shuffle = false;
    b.options.last_step = 100;
    b.probe.fail_at = 6;
    b.graph.n_losses = 1;
    b.graph.losses[0] = (clt_loss){.name = "l", .target_field = "y", .has_ignore = true, .ignore_index = 1};
    clt_loader *loader = open_loader(&b);
    clt_slot *slot = NULL;
    assert_int_equal(clt_loader_next(loader, &slot), CLT_EDATA);
    expect_words("sample 6");
    clt_loader_destroy(loader);
}

TEST(test_bounded)
{
    static bench b;
    make_bench(&b, 40, 4, 1, 1);
    b.options.last_step = 50;
    b.options.workers = 4;
    b.options.n_slots = 3;
    clt_loader *loader = open_loader(&b);
    clt_slot *held[3] = {NULL};
    /* a slow consumer: three slots are filled and no more, however long it takes */
    await_count(&b.probe.reads, 12);
    nap(20000000);
    assert_int_equal(atomic_load(&b.probe.reads), 12);
    for (int i = 0; i < 3; i++) {
        assert_ok(clt_loader_next(loader, &held[i]));
        check_slot(&b, held[i], i);
    }
    nap(20000000);
    assert_int_equal(atomic_load(&b.probe.reads), 12); /* slots that the consumer holds are not touched */
    for (int i = 0; i < 3; i++)
        check_slot(&b, held[i], i);
    clt_loader_release(loader, held[1]); /* in any order */
    clt_slot *next = NULL;
    assert_ok(clt_loader_next(loader, &next));
    check_slot(&b, next, 3);
    assert_int_equal(next->index, held[1]->index);
    clt_loader_release(loader, next);
    clt_loader_release(loader, next); /* a second release changes nothing */
    clt_loader_release(loader, NULL);
    clt_loader_release(loader, held[2]);
    clt_loader_release(loader, held[0]);
    for (int64_t k = 4; k < 50; k++) {
        assert_ok(clt_loader_next(loader, &next));
        check_slot(&b, next, k);
        clt_loader_release(loader, next);
    }
    clt_loader_destroy(loader);

    /* a slow producer */
    make_bench(&b, 40, 4, 1, 1);
    b.options.workers = 1;
    b.options.last_step = 3;
    b.probe.slow_ns = 2000000;
    loader = open_loader(&b);
    assert_ok(clt_loader_next(loader, &next));
    assert_true(next->load_seconds >= 0.008);
    clt_loader_destroy(loader);
    /* the consumer waits, and the wait is counted */
    make_bench(&b, 40, 4, 1, 1);
    b.options.last_step = 3;
    b.probe.gated = true;
    consumer c = {.loader = open_loader(&b)};
    clt_thread *thread = NULL;
    assert_ok(clt_thread_start(&thread, "consumer", consume, &c));
    await_sleep(&c);
    nap(8000000);
    atomic_store(&b.probe.open, true);
    clt_thread_join(thread);
    assert_int_equal(c.slots, 3);
    assert_true(clt_loader_wait_seconds(c.loader) >= 0.008);
    clt_loader_destroy(c.loader);
}

/* With two slots all of eight threads are busy, because they share the slots; the content is the same as
 * from one thread. */
TEST(test_slots_are_shared)
{
    static bench b;
    make_bench(&b, 200, 32, 1, 1);
    b.options.workers = 8;
    b.options.n_slots = 2;
    b.options.last_step = 4;
    b.probe.meet = 8;
    drain(&b, NULL);
    assert_true(atomic_load(&b.probe.most_inside) == 8);
    /* pieces of many samples, where these are cheap */
    make_bench(&b, 200, 64, 1, 1);
    b.options.workers = 8;
    b.options.n_slots = 2;
    b.options.last_step = 2000;
    drain(&b, NULL);
}

/* If several samples fail at the same time, the first one is reported, whichever thread reads it. */
TEST(test_first_failure)
{
    static bench b;
    for (int round = 0; round < 20; round++) {
        make_bench(&b, 64, 32, 1, 1);
        b.options.shuffle = false;
        b.options.workers = 8;
        b.options.last_step = 2;
        b.probe.jitter = true;
        b.probe.fail_at = 3 + round;
        b.probe.fails_from = true;
        clt_loader *loader = open_loader(&b);
        clt_slot *slot = NULL;
        char words[64];
        assert_int_equal(clt_loader_next(loader, &slot), CLT_EDATA);
        (void)snprintf(words, sizeof words, "batch 0|sample %d of 'probe'", 3 + round);
        expect_words(words);
        clt_loader_destroy(loader);
    }
}

/* Several consumers share one stream without loss, and all of them see its end. */
TEST(test_consumers)
{
    static bench b;
    for (int broken = 0; broken < 2; broken++) {
        make_bench(&b, 400, 4, 1, 1);
        b.options.last_step = 60;
        b.options.shuffle = false;
        b.probe.jitter = true;
        b.probe.fail_at = broken ? 100 : -1;
        consumer c[3] = {{0}};
        clt_thread *threads[3];
        clt_loader *loader = open_loader(&b);
        for (int i = 0; i < 3; i++) {
            c[i].loader = loader;
            assert_ok(clt_thread_start(&threads[i], "consumer", consume, &c[i]));
        }
        for (int i = 0; i < 3; i++) {
            clt_thread_join(threads[i]);
            assert_int_equal(c[i].status, broken ? CLT_EDATA : CLT_OK);
        }
        assert_int_equal(c[0].slots + c[1].slots + c[2].slots, broken ? 25 : 60);
        clt_loader_destroy(loader);
    }
    /* destroy while a consumer waits: the wait ends */
    make_bench(&b, 400, 64, 1, 1);
    b.options.last_step = 60;
    b.probe.gated = true;
    consumer c = {.loader = open_loader(&b), .end = &b.probe.open};
    clt_thread *thread = NULL;
    assert_ok(clt_thread_start(&thread, "consumer", consume, &c));
    await_sleep(&c);
    clt_loader_destroy(c.loader);
    clt_thread_join(thread);
    assert_int_equal(c.status, CLT_EINTERRUPTED);
    assert_int_equal(c.slots, 0);
}

static void refuse(bench *b, clt_status code, const char *words)
{
    clt_loader *loader = NULL;
    clt_error_clear();
    assert_int_equal(clt_loader_create(&b->options, &loader), code);
    assert_null(loader);
    expect_words(words);
    make_bench(b, 40, 4, 2, 2);
}

/* No slot is released: the check that runs while the consumer waits ends the wait when it fails. It runs
 * once in 0.2 seconds of waiting, not more often. */
typedef struct questions {
    int asked;
    bool fails; /* at the third call */
} questions;

static clt_status after_three(void *context)
{
    questions *q = context;
    return ++q->asked < 3 || !q->fails ? CLT_OK
                                       : clt_fail(CLT_EDEVLOST, __FILE__, __LINE__, "the upload failed");
}

TEST(test_check_while_waiting)
{
    bench b;
    questions q = {.fails = false};
    make_bench(&b, 200, 4, 1, 1);
    b.options.last_step = 40;
    b.options.check = after_three;
    b.options.check_context = &q;
    clt_loader *loader = open_loader(&b);
    clt_slot *slot[4] = {NULL};
    for (int i = 0; i < 3; i++) {
        assert_ok(clt_loader_next(loader, &slot[i]));
        assert_non_null(slot[i]);
    }
    assert_true(q.asked * 0.2 <= clt_loader_wait_seconds(loader));
    q = (questions){.fails = true};
    assert_int_equal(clt_loader_next(loader, &slot[3]), CLT_EDEVLOST);
    assert_int_equal(q.asked, 3);
    assert_non_null(strstr(clt_error_text(), "the upload failed"));
    clt_loader_release(loader, slot[0]); /* the stream continues where it was */
    assert_ok(clt_loader_next(loader, &slot[3]));
    assert_int_equal(slot[3]->step, 3);
    clt_loader_destroy(loader);
}

TEST(test_options)
{
    static bench b;
    make_bench(&b, 40, 4, 2, 2);
    b.options.first_micro = 3;
    refuse(&b, CLT_EINTERNAL, "global batch of 16|no 2 micro-batches of 4|from number 3");
    b.options.rank = 2;
    refuse(&b, CLT_EINTERNAL, "rank 2 of 2");
    b.options.workers = 0;
    refuse(&b, CLT_EINTERNAL, "0 workers");
    b.options.n_slots = 1;
    refuse(&b, CLT_EINTERNAL, "1 slots");
    b.options.slot_bytes = MAX_BATCH * 4 + 15;
    refuse(&b, CLT_EINTERNAL, "\"x\"|does not fit a slot");
    b.options.offset[1] = 258;
    refuse(&b, CLT_EINTERNAL, "\"x\"|offset 258");
    b.options.source_field[0] = 2;
    refuse(&b, CLT_EINTERNAL, "no field 2");
    b.slots[1] = NULL;
    refuse(&b, CLT_EINTERNAL, "slot 1");
    b.options.last_step = -1;
    refuse(&b, CLT_EINTERNAL, "0 to -1");
    b.options.last_step = INT64_MAX;
    refuse(&b, CLT_ECONFIG, "fewer train.steps");
    b.fields[0].shape = clt_shape1(3);
    refuse(&b, CLT_ESHAPE, "\"y\"|(3) u8|(2) u8|probe");
    b.fields[1].dtype = CLT_U8;
    refuse(&b, CLT_ESHAPE, "\"x\"|u8|i32");
    assert_true(clt_loader_auto_workers(1) >= 1);
    assert_int_equal(clt_loader_auto_workers(1000000), 1);
    assert_true(clt_loader_auto_workers(0) == clt_loader_auto_workers(1));
}
