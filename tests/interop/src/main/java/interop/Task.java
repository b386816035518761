package interop;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/** A command that runs: what it was asked, where its lines go, whether it is to end. */
final class Task {
    final Options options;
    private final Consumer<Map<String, Object>> out;
    private boolean stopped;

    Task(Options options, Consumer<Map<String, Object>> out) {
        this.options = options;
        this.out = out;
    }

    /** Prints a JSON object made of names and values in turn. */
    void print(Object... namesAndValues) {
        out.accept(line(namesAndValues));
    }

    synchronized void stop() {
        stopped = true;
        notifyAll();
    }

    synchronized boolean stopped() {
        return stopped;
    }

    synchronized void awaitStop() throws InterruptedException {
        while (!stopped) {
            wait();
        }
    }

    /** Waits for so long, or until the command is to end. */
    synchronized void pause(long millis) throws InterruptedException {
        if (!stopped && millis > 0) {
            wait(millis);
        }
    }

    static Map<String, Object> line(Object... namesAndValues) {
        Map<String, Object> line = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            line.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return line;
    }
}
