/* Text of a row, as Spark's CAST to STRING gives it: of dates and decimals, whose text is another in Arrow. */
#include "node.h"
#include "text.h"

bool cast_write(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    if (node->write == WRITE_DECIMAL) {
        bool negative;
        unsigned __int128 value = node_decimal(node, row, &negative);
        decimal_text(out, value, negative, node->number, true);
        return true;
    }
    int64_t days;
    if (!node_integer(node, row, &days)) {
        return fails(failure, node, OUT_OF_RANGE);
    }
    date_text(out, days);
    return true;
}
