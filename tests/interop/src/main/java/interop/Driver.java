package interop;

import com.taobao.metamorphosis.client.consumer.SimpleFetchManager;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.codehaus.jackson.map.ObjectMapper;

/**
 * The reference's client, steered by JSON lines. On standard input, {@code {"id":1,"command":"produce",...}} starts a
 * command and {@code {"id":1,"stop":true}} asks it to end early. Each line on standard output carries the id of its
 * command; the last one is {@code {"id":1,"exit":true}}, or {@code {"id":1,"exit":false,"error":text}} if the command
 * failed. Commands run side by side. The end of the input ends the process.
 */
final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<Object, Task> RUNNING = new ConcurrentHashMap<>();

    private static final Map<String, Command> COMMANDS = Map.of(
            "produce", Produce::run,
            "consume", Consume::run,
            "get", Read::get,
            "browse", Read::browse,
            "offset", Read::offset,
            "partitions", Read::partitions,
            "stats", Read::stats);

    /** What a command does. It fails by throwing. */
    interface Command {
        void run(Task task) throws Exception;
    }

    private Driver() {}

    public static void main(String[] args) throws IOException {
        // The client drops messages whose id it has seen lately, which would hide duplicates.
        SimpleFetchManager.setMessageIdCache(null);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            accept(new Options(JSON.readValue(line, Map.class)));
        }
        System.exit(0);
    }

    private static void accept(Options request) {
        Object id = request.number("id", 0);
        if (request.flag("stop")) {
            Task running = RUNNING.get(id);
            if (running != null) {
                running.stop();
            }
            return;
        }
        Task task = new Task(request, event -> print(id, event));
        RUNNING.put(id, task);
        new Thread(() -> run(id, task), "command-" + id).start();
    }

    private static void run(Object id, Task task) {
        Map<String, Object> last = Task.line("exit", true);
        try {
            COMMANDS.get(task.options.text("command")).run(task);
        } catch (Throwable e) {
            last = Task.line("exit", false, "error", reason(e));
        }
        RUNNING.remove(id);
        print(id, last);
    }

    private static synchronized void print(Object id, Map<String, Object> event) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", id);
        line.putAll(event);
        try {
            OUT.println(JSON.writeValueAsString(line));
            OUT.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The chain of causes in one line. */
    static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append("; cause: ").append(cause);
        }
        return text.toString();
    }
}
