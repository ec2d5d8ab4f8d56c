/* Sorting: insertion sort, shell sort, heap sort and quicksort on integers and on records. */
#include "suite.h"

typedef struct {
    int key;
    short group;
    char name[10];
} Record;

static void swap_ints(int *a, int *b) {
    int kept = *a;
    *a = *b;
    *b = kept;
}

void insertion_sort(int *values, int count) {
    for (int i = 1; i < count; i++) {
        int value = values[i], at = i;
        while (at > 0 && values[at - 1] > value) {
            values[at] = values[at - 1];
            at--;
        }
        values[at] = value;
    }
}

void shell_sort(int *values, int count) {
    static const int gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
    for (unsigned g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        int gap = gaps[g];
        for (int i = gap; i < count; i++) {
            int value = values[i], at = i;
            for (; at >= gap && values[at - gap] > value; at -= gap)
                values[at] = values[at - gap];
            values[at] = value;
        }
    }
}

static void sift_down(int *heap, int root, int count) {
    for (;;) {
        int child = 2 * root + 1;
        if (child >= count)
            return;
        if (child + 1 < count && heap[child] < heap[child + 1])
            child++;
        if (heap[root] >= heap[child])
            return;
        swap_ints(&heap[root], &heap[child]);
        root = child;
    }
}

void heap_sort(int *values, int count) {
    for (int root = count / 2 - 1; root >= 0; root--)
        sift_down(values, root, count);
    for (int end = count - 1; end > 0; end--) {
        swap_ints(&values[0], &values[end]);
        sift_down(values, 0, end);
    }
}

static int median_of_three(const int *values, int low, int high) {
    int middle = low + (high - low) / 2;
    int a = values[low], b = values[middle], c = values[high];
    if ((a <= b && b <= c) || (c <= b && b <= a))
        return b;
    if ((b <= a && a <= c) || (c <= a && a <= b))
        return a;
    return c;
}

void quick_sort(int *values, int low, int high) {
    while (high - low > 12) {
        int pivot = median_of_three(values, low, high), i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j)
                swap_ints(&values[i++], &values[j--]);
        }
        if (j - low < high - i) {
            quick_sort(values, low, j);
            low = i;
        } else {
            quick_sort(values, i, high);
            high = j;
        }
    }
    insertion_sort(values + low, high - low + 1);
}

static int compare_records(const Record *a, const Record *b) {
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Merges runs of growing length from one array into the other. */
Record *merge_sort(Record *from, Record *to, int count) {
    for (int width = 1; width < count; width *= 2) {
        for (int start = 0; start < count; start += 2 * width) {
            int middle = start + width < count ? start + width : count;
            int end = start + 2 * width < count ? start + 2 * width : count;
            int i = start, j = middle;
            for (int at = start; at < end; at++) {
                if (i < middle && (j >= end || compare_records(&from[i], &from[j]) <= 0))
                    to[at] = from[i++];
                else
                    to[at] = from[j++];
            }
        }
        Record *kept = from;
        from = to;
        to = kept;
    }
    return from;
}

static void fill(int *values, int count, int pattern) {
    for (int i = 0; i < count; i++) {
        int value = (int)(next_random() % 100000);
        values[i] = pattern == 0 ? value : pattern == 1 ? i * 3 + value % 7 : (count - i) / 4;
    }
}

static void mix_ints(const int *values, int count) {
    for (int i = 0; i < count; i++) {
        if (i > 0 && values[i - 1] > values[i])
            mix(0xbad);
        mix((uint64_t)values[i]);
    }
}

void run(int size) {
    int *values = malloc(sizeof(int) * (size_t)size);
    for (int pattern = 0; pattern < 3; pattern++) {
        fill(values, size / 4, pattern);
        insertion_sort(values, size / 4);
        mix_ints(values, size / 4);
        fill(values, size, pattern);
        shell_sort(values, size);
        mix_ints(values, size);
        fill(values, size, pattern);
        heap_sort(values, size);
        mix_ints(values, size);
        fill(values, size, pattern);
        quick_sort(values, 0, size - 1);
        mix_ints(values, size);
    }
    Record *records = calloc((size_t)size, sizeof(Record)), *other = calloc((size_t)size, sizeof(Record));
    for (int i = 0; i < size; i++) {
        records[i].key = (int)(next_random() % 50);
        records[i].group = (short)(next_random() % 5);
        for (int c = 0; c < 6; c++)
            records[i].name[c] = (char)('a' + next_random() % 3);
    }
    Record *sorted = merge_sort(records, other, size);
    for (int i = 0; i < size; i++)
        mix((uint64_t)sorted[i].key * 1000 + (uint64_t)sorted[i].group * 100 + (uint64_t)sorted[i].name[2]);
    free(values);
    free(records);
    free(other);
}
