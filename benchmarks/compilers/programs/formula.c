/* Parsers: formulas to trees by recursive descent; simplification, derivatives, evaluation, printing. */
#include "suite.h"

typedef struct Tree Tree;
struct Tree {
    char kind; /* a digit's kind is '0', a variable's 'x'; otherwise the operator */
    int value;
    Tree *left, *right;
};

static Tree pool[20000];
static int used;
static const char *at;

static Tree *make(char kind, int value, Tree *left, Tree *right) {
    if (used >= 20000)
        used = 19999;
    Tree *tree = &pool[used++];
    *tree = (Tree){kind, value, left, right};
    return tree;
}

static Tree *number(int value) { return make('0', value, NULL, NULL); }

static void skip_spaces(void) {
    while (*at == ' ' || *at == '\t')
        at++;
}

static Tree *parse_sum(void);

static Tree *parse_primary(void) {
    skip_spaces();
    if (*at == '(') {
        at++;
        Tree *inner = parse_sum();
        skip_spaces();
        if (*at == ')')
            at++;
        return inner;
    }
    if (*at == '-') {
        at++;
        return make('n', 0, parse_primary(), NULL);
    }
    if (*at >= '0' && *at <= '9') {
        int value = 0;
        while (*at >= '0' && *at <= '9')
            value = value * 10 + (*at++ - '0');
        return number(value);
    }
    if (*at >= 'a' && *at <= 'z')
        return make('x', *at++ - 'a', NULL, NULL);
    mix(0xbad);
    if (*at)
        at++;
    return number(0);
}

static Tree *parse_power(void) {
    Tree *base = parse_primary();
    skip_spaces();
    if (*at != '^')
        return base;
    at++;
    return make('^', 0, base, parse_power());
}

static Tree *parse_product(void) {
    Tree *left = parse_power();
    for (skip_spaces(); *at == '*' || *at == '/' || *at == '%'; skip_spaces()) {
        char kind = *at++;
        left = make(kind, 0, left, parse_power());
    }
    return left;
}

static Tree *parse_sum(void) {
    Tree *left = parse_product();
    for (skip_spaces(); *at == '+' || *at == '-'; skip_spaces()) {
        char kind = *at++;
        left = make(kind, 0, left, parse_product());
    }
    return left;
}

static int64_t power(int64_t base, int64_t exponent) {
    uint64_t result = 1, factor = (uint64_t)base;
    for (exponent &= 15; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result *= factor;
        factor *= factor;
    }
    return (int64_t)result;
}

int64_t evaluate(const Tree *tree, const int *variables) {
    if (tree->kind == '0')
        return tree->value;
    if (tree->kind == 'x')
        return variables[tree->value];
    uint64_t a = (uint64_t)evaluate(tree->left, variables);
    if (tree->kind == 'n')
        return (int64_t)(0 - a);
    uint64_t b = (uint64_t)evaluate(tree->right, variables);
    switch (tree->kind) {
    case '+':
        return (int64_t)(a + b);
    case '-':
        return (int64_t)(a - b);
    case '*':
        return (int64_t)(a * b);
    case '/':
        return b == 0 || b == UINT64_MAX ? 0 : (int64_t)a / (int64_t)b;
    case '%':
        return b == 0 || b == UINT64_MAX ? 0 : (int64_t)a % (int64_t)b;
    default:
        return power((int64_t)a, (int64_t)b);
    }
}

static int is_number(const Tree *tree, int value) { return tree->kind == '0' && tree->value == value; }

static int are_equal(const Tree *a, const Tree *b) {
    if (!a || !b)
        return a == b;
    return a->kind == b->kind && a->value == b->value && are_equal(a->left, b->left) && are_equal(a->right, b->right);
}

Tree *simplify(Tree *tree) {
    if (tree->kind == '0' || tree->kind == 'x')
        return tree;
    Tree *a = simplify(tree->left), *b = tree->right ? simplify(tree->right) : NULL;
    if (tree->kind == 'n')
        return a->kind == 'n' ? a->left : a->kind == '0' ? number(-a->value) : make('n', 0, a, NULL);
    if (a->kind == '0' && b->kind == '0' && tree->kind != '^' && abs(a->value) < 1000 && abs(b->value) < 1000) {
        Tree both = {tree->kind, 0, a, b};
        return number((int)evaluate(&both, NULL));
    }
    switch (tree->kind) {
    case '+':
        if (is_number(a, 0))
            return b;
        if (is_number(b, 0))
            return a;
        if (are_equal(a, b))
            return make('*', 0, number(2), a);
        break;
    case '-':
        if (is_number(b, 0))
            return a;
        if (are_equal(a, b))
            return number(0);
        break;
    case '*':
        if (is_number(a, 0) || is_number(b, 1))
            return a;
        if (is_number(b, 0) || is_number(a, 1))
            return b;
        break;
    case '/':
        if (is_number(b, 1))
            return a;
        break;
    case '^':
        if (is_number(b, 1))
            return a;
        if (is_number(b, 0))
            return number(1);
        break;
    }
    return make(tree->kind, 0, a, b);
}

Tree *derive(Tree *tree, int variable) {
    Tree *a = tree->left, *b = tree->right;
    switch (tree->kind) {
    case '0':
        return number(0);
    case 'x':
        return number(tree->value == variable);
    case 'n':
        return make('n', 0, derive(a, variable), NULL);
    case '+':
    case '-':
        return make(tree->kind, 0, derive(a, variable), derive(b, variable));
    case '*':
        return make('+', 0, make('*', 0, derive(a, variable), b), make('*', 0, a, derive(b, variable)));
    case '^':
        if (b->kind == '0')
            return make('*', 0, make('*', 0, number(b->value), make('^', 0, a, number(b->value - 1))), derive(a, variable));
        return number(0);
    default:
        return make('/', 0, derive(a, variable), b);
    }
}

static int depth_of(const Tree *tree) {
    if (!tree)
        return 0;
    int left = depth_of(tree->left), right = depth_of(tree->right);
    return 1 + (left > right ? left : right);
}

static void print(const Tree *tree, int rank) {
    static const char operators[] = "+-*/%^";
    if (tree->kind == '0') {
        mix((uint64_t)tree->value);
    } else if (tree->kind == 'x') {
        mix((uint64_t)('a' + tree->value));
    } else if (tree->kind == 'n') {
        mix('-');
        print(tree->left, 4);
    } else {
        int own = (int)(strchr(operators, tree->kind) - operators) / 2 + 1;
        if (own < rank)
            mix('(');
        print(tree->left, own);
        mix((uint64_t)tree->kind);
        print(tree->right, own + 1);
        if (own < rank)
            mix(')');
    }
}

static int write_formula(char *out, int room, int depth) {
    static const char operators[] = "+-*/%^+*";
    if (depth == 0 || room < 24) {
        if (next_random() % 2) {
            out[0] = (char)('a' + next_random() % 4);
            return 1;
        }
        return sprintf(out, "%u", next_random() % 20);
    }
    int length = 0, is_nested = next_random() % 3 == 0;
    if (is_nested)
        out[length++] = '(';
    length += write_formula(out + length, (room - length) / 2, depth - 1);
    out[length++] = ' ';
    out[length++] = operators[next_random() % 8];
    length += write_formula(out + length, room - length - 2, depth - 1);
    if (is_nested)
        out[length++] = ')';
    return length;
}

void run(int size) {
    char text[4096];
    int variables[26] = {3, -5, 7, 2};
    for (int round = 0; round < size; round++) {
        int length = write_formula(text, 4000, 2 + round % 6);
        text[length] = 0;
        used = 0;
        at = text;
        Tree *tree = parse_sum(), *simple = simplify(tree), *slope = simplify(derive(simple, round % 4));
        for (int k = 0; k < 3; k++) {
            variables[k] += round % 11 - 5;
            mix((uint64_t)evaluate(tree, variables));
            mix((uint64_t)evaluate(simple, variables));
            mix((uint64_t)evaluate(slope, variables));
        }
        mix((uint64_t)(depth_of(tree) * 100 + depth_of(slope)));
        print(simple, 0);
    }
}
