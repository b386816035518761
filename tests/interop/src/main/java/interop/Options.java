package interop;

import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The members of a request. */
final class Options {
    private final Map<?, ?> values;

    Options(Map<?, ?> values) {
        this.values = values;
    }

    boolean has(String name) {
        return values.get(name) != null;
    }

    String text(String name) {
        if (!has(name)) {
            throw new IllegalArgumentException(name + " is missing in " + values.keySet());
        }
        return values.get(name).toString();
    }

    String text(String name, String otherwise) {
        return has(name) ? text(name) : otherwise;
    }

    long number(String name, long otherwise) {
        return has(name) ? ((Number) values.get(name)).longValue() : otherwise;
    }

    int integer(String name, int otherwise) {
        return Math.toIntExact(number(name, otherwise));
    }

    boolean flag(String name) {
        return Boolean.TRUE.equals(values.get(name));
    }

    byte[] bytes(String name) {
        return Base64.getDecoder().decode(text(name));
    }

    List<Options> list(String name) {
        List<?> items = (List<?>) values.get(name);
        return items.stream().map(item -> new Options((Map<?, ?>) item)).collect(Collectors.toList());
    }
}
