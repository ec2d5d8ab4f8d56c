/* Sorting: radix sort, counting sort, comb sort, a binary search tree, selection of the median, a priority queue. */
#include "suite.h"

typedef struct Node {
    struct Node *left, *right;
    uint32_t key;
    int count;
} Node;

void radix_sort(uint32_t *values, uint32_t *buffer, int count) {
    for (int shift = 0; shift < 32; shift += 8) {
        int starts[257] = {0};
        for (int i = 0; i < count; i++)
            starts[(values[i] >> shift & 255) + 1]++;
        for (int digit = 0; digit < 256; digit++)
            starts[digit + 1] += starts[digit];
        for (int i = 0; i < count; i++)
            buffer[starts[values[i] >> shift & 255]++] = values[i];
        memcpy(values, buffer, sizeof(uint32_t) * (size_t)count);
    }
}

void counting_sort(unsigned char *values, int count) {
    int histogram[256] = {0};
    for (int i = 0; i < count; i++)
        histogram[values[i]]++;
    for (int value = 0, at = 0; value < 256; value++)
        for (int left = histogram[value]; left > 0; left--)
            values[at++] = (unsigned char)value;
}

void comb_sort(uint32_t *values, int count) {
    int gap = count, swapped = 1;
    while (gap > 1 || swapped) {
        gap = gap * 10 / 13;
        if (gap < 1)
            gap = 1;
        swapped = 0;
        for (int i = 0; i + gap < count; i++) {
            if (values[i] > values[i + gap]) {
                uint32_t kept = values[i];
                values[i] = values[i + gap];
                values[i + gap] = kept;
                swapped = 1;
            }
        }
    }
}

static Node *new_node(Node *pool, int *used, uint32_t key) {
    Node *node = &pool[(*used)++];
    node->left = node->right = NULL;
    node->key = key;
    node->count = 1;
    return node;
}

void tree_insert(Node **root, Node *pool, int *used, uint32_t key) {
    while (*root) {
        if ((*root)->key == key) {
            (*root)->count++;
            return;
        }
        root = key < (*root)->key ? &(*root)->left : &(*root)->right;
    }
    *root = new_node(pool, used, key);
}

static int tree_walk(const Node *node, int depth) {
    if (!node)
        return depth;
    int left = tree_walk(node->left, depth + 1);
    mix((uint64_t)node->key * 31 + (uint64_t)node->count);
    int right = tree_walk(node->right, depth + 1);
    return left > right ? left : right;
}

uint32_t select_kth(uint32_t *values, int count, int k) {
    int low = 0, high = count - 1;
    while (low < high) {
        uint32_t pivot = values[k];
        int i = low, j = high;
        do {
            while (values[i] < pivot)
                i++;
            while (pivot < values[j])
                j--;
            if (i <= j) {
                uint32_t kept = values[i];
                values[i++] = values[j];
                values[j--] = kept;
            }
        } while (i <= j);
        if (j < k)
            low = i;
        if (k < i)
            high = j;
    }
    return values[k];
}

static int queue_push(uint32_t *heap, int count, uint32_t value) {
    int at = count;
    while (at > 0 && heap[(at - 1) / 4] > value) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap[at] = value;
    return count + 1;
}

static uint32_t queue_pop(uint32_t *heap, int count) {
    uint32_t top = heap[0], value = heap[count - 1];
    int at = 0;
    for (;;) {
        int best = -1;
        uint32_t least = value;
        for (int child = 4 * at + 1; child <= 4 * at + 4 && child < count - 1; child++) {
            if (heap[child] < least) {
                least = heap[child];
                best = child;
            }
        }
        if (best < 0)
            break;
        heap[at] = least;
        at = best;
    }
    heap[at] = value;
    return top;
}

static void fill(uint32_t *values, int count, uint32_t range) {
    for (int i = 0; i < count; i++)
        values[i] = range ? next_random() % range : next_random();
}

void run(int size) {
    uint32_t *values = malloc(sizeof(uint32_t) * (size_t)size), *buffer = malloc(sizeof(uint32_t) * (size_t)size);
    unsigned char *bytes = malloc((size_t)size);
    Node *pool = malloc(sizeof(Node) * (size_t)size), *root = NULL;
    int used = 0, queued = 0;
    fill(values, size, 0);
    radix_sort(values, buffer, size);
    for (int i = 0; i < size; i++)
        mix(values[i]);
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(next_random() >> 11);
    counting_sort(bytes, size);
    for (int i = 0; i < size; i++)
        mix(bytes[i]);
    fill(values, size, 5000);
    comb_sort(values, size);
    for (int i = 0; i < size; i++)
        mix(values[i]);
    fill(values, size, (uint32_t)size / 2 + 1);
    for (int i = 0; i < size; i++)
        tree_insert(&root, pool, &used, values[i]);
    mix((uint64_t)tree_walk(root, 0));
    fill(values, size, 0);
    for (int k = 1; k < 8; k++)
        mix(select_kth(values, size, size * k / 8));
    for (int i = 0; i < size; i++) {
        queued = queue_push(buffer, queued, next_random() % 1000);
        if (i % 3 == 2)
            mix(queue_pop(buffer, queued--));
    }
    while (queued > 0)
        mix(queue_pop(buffer, queued--));
    free(values);
    free(buffer);
    free(bytes);
    free(pool);
}
