/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of ranks that divide the optimizer's state: shares cover everything once, and plans wait for
 * gathered parameters before they use them. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

#define RANKS 3
#define CHUNK_BYTES (CLT_STORE_CHUNK * sizeof(float))
#define MOST_ELEMENTS 300000

typedef struct ranks {
    clt_plan *plan[RANKS];
} ranks;

static ranks make(net_maker maker, const clt_optimizer *optimizer, clt_dtype wire, uint64_t max_alloc)
{
    ranks all;
    for (int r = 0; r < RANKS; r++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        if (max_alloc)
            desc.max_alloc_bytes = max_alloc;
        options.ranks = RANKS;
        options.rank = r;
        options.shard = true;
        options.wire = wire;
        options.update.optimizer = optimizer;
        options.buckets = (clt_bucket_sizes){20 * CHUNK_BYTES, 70 * CHUNK_BYTES};
        all.plan[r] = plan_of(maker(), &desc, &options);
        assert_true(all.plan[r]->store->sharded);
    }
    return all;
}

static void drop(ranks *all)
{
    for (int r = 0; r < RANKS; r++)
        clt_plan_destroy(all->plan[r]);
}

/* --- pieces --- */

/* Every element of every parameter belongs to one rank, which stores this element's state at a place of its
 * own. */
static void check_pieces(const ranks *all)
{
    const clt_store_layout *first = all->plan[0]->store;
    char *kept[RANKS], *owned = malloc(MOST_ELEMENTS);
    assert_int_equal(first->n_slabs <= CLT_MAX_STORE_SLABS, 1);
    for (int32_t slab = 0; slab < first->n_slabs; slab++) {
        for (int r = 0; r < RANKS; r++)
            kept[r] = calloc(all->plan[r]->store->own_elements[slab] + 1, 1);
        for (int32_t i = 0; i < first->n_slots; i++) {
            const clt_store_slot *slot = &first->slots[i];
            assert_true(slot->elements <= MOST_ELEMENTS);
            memset(owned, 0, MOST_ELEMENTS);
            for (int r = 0; r < RANKS && slot->slab == slab; r++) {
                const clt_store_layout *layout = all->plan[r]->store;
                clt_store_piece state, gradient;
                for (int64_t k = 0; clt_store_part(layout, CLT_ARENA_OPT1, slot, k, &state); k++) {
                    assert_true(clt_store_part(layout, CLT_ARENA_GRAD, slot, k, &gradient));
                    assert_int_equal(gradient.first, state.first);
                    assert_int_equal(gradient.at, slot->offset + state.first);
                    assert_true(state.count > 0 && state.first + state.count <= slot->elements);
                    assert_true(state.at + state.count <= layout->own_elements[slab]);
                    for (uint64_t e = 0; e < state.count; e++) {
                        assert_int_equal(owned[state.first + e]++, 0);
                        assert_int_equal(kept[r][state.at + e]++, 0);
                    }
                }
                assert_int_equal(clt_store_slab_bytes(layout, CLT_ARENA_OPT1, slab),
                                 layout->own_elements[slab] * sizeof(float));
            }
            for (uint64_t e = 0; e < slot->elements && slot->slab == slab; e++)
                assert_int_equal(owned[e], 1);
        }
        for (int r = 0; r < RANKS; r++)
            free(kept[r]);
    }
    free(owned);
}

/* --- sums --- */

/* All ranks compute the same sums in the same order. */
static void check_same_sums(const ranks *all)
{
    const clt_plan *a = all->plan[0];
    for (int r = 1; r < RANKS; r++) {
        const clt_plan *b = all->plan[r];
        assert_int_equal(a->n_sums, b->n_sums);
        for (size_t k = 0; k < a->n_sums; k++) {
            assert_int_equal(a->sums[k].kind, b->sums[k].kind);
            assert_int_equal(a->sums[k].grain, b->sums[k].grain);
            assert_int_equal(bytes_of(a, (size_t)a->sums[k].tensor), bytes_of(b, (size_t)b->sums[k].tensor));
        }
    }
}

/* Whether a command uses bytes of the parameters' arena that belong to a sum. */
static bool uses(const clt_plan *plan, const ocl_command *command, const clt_sum *sum, uint32_t access)
{
    const clt_place *range = &plan->place[sum->tensor];
    for (int a = 0; a < command->n_args && command->kind != OCL_CMD_HOST; a++) {
        if (!is_tensor(&command->args[a]) || !(command->args[a].access & access))
            continue;
        const clt_place *place = &plan->place[owner_of(plan, command->args[a].ref.tensor)];
        if (place->kind == CLT_PLACE_STORE && place->arena == CLT_ARENA_PARAM && place->slab == range->slab &&
            place->offset < range->offset + range->bytes && range->offset < place->offset + place->bytes)
            return true;
    }
    return false;
}

/* The one command of this kind for a sum. */
static size_t find_host(const clt_plan *plan, clt_phase phase, clt_host_code code, size_t sum)
{
    const ocl_command_list *list = &plan->phase[phase];
    size_t at = SIZE_MAX;
    for (size_t c = 0; c < list->count; c++)
        if (list->commands[c].kind == OCL_CMD_HOST && list->commands[c].host_code == (int32_t)code &&
            list->commands[c].args[1].value.u32 == sum) {
            assert_int_equal(at, SIZE_MAX);
            at = c;
        }
    assert_true(at != SIZE_MAX);
    return at;
}

/* Parameters are posted after the update has written all of them, and waited for before the first command
 * that reads them. */
static void check_parameters(const clt_plan *plan)
{
    const ocl_command_list *forward = &plan->phase[CLT_PHASE_FORWARD];
    const ocl_command_list *update = &plan->phase[CLT_PHASE_UPDATE];
    uint64_t covered[CLT_MAX_STORE_SLABS] = {0};
    size_t latest = 0, takes = 0;
    for (size_t k = 0; k < plan->n_sums; k++) {
        const clt_sum *sum = &plan->sums[k];
        if (sum->kind != CLT_SUM_PARAMETERS)
            continue;
        size_t post = find_host(plan, CLT_PHASE_UPDATE, CLT_HOST_POST, k);
        size_t wait = find_host(plan, CLT_PHASE_FORWARD, CLT_HOST_WAIT, k);
        for (size_t c = post; c < update->count; c++)
            assert_false(uses(plan, &update->commands[c], sum, OCL_WRITE));
        for (size_t c = 0; c < wait; c++)
            assert_false(uses(plan, &forward->commands[c], sum, OCL_READ));
        covered[sum->slab] += plan->place[sum->tensor].bytes / sizeof(float);
        latest = wait > latest ? wait : latest;
        assert_int_equal(sum->take_first, takes);
        takes = sum->take_last;
    }
    for (int32_t s = 0; s < plan->store->n_slabs; s++)
        assert_int_equal(covered[s], plan->store->trainable_elements[s]);
    assert_int_equal(takes, plan->phase[CLT_PHASE_TAKE].count);
    assert_true(latest > forward->count / 2); /* the forward pass does not wait for everything first */
}

TEST(test_plans)
{
    static const clt_optimizer *const optimizers[] = {&clt_optimizer_adamw, &clt_optimizer_lamb,
                                                      &clt_optimizer_muon};
    for (size_t i = 0; i < N_NETS; i++)
        for (int form = 0; form < 6; form++) {
            ranks all = make(makers[i], optimizers[form % 3], form % 2 ? CLT_BF16 : CLT_F32,
                             form < 3 ? 0 : 704 << 10);
            assert_true(form < 3 || all.plan[0]->store->n_slabs > 1);
            check_pieces(&all);
            check_same_sums(&all);
            for (int r = 0; r < RANKS; r++) {
                check_parameters(all.plan[r]);
                check_plan(all.plan[r], all.plan[r]->device.max_alloc_bytes);
            }
            drop(&all);
        }
}

TEST_PROGRAM(.set_up = hide_drivers);
