# Completion of callgate for fish:
#   callgate completion fish > ~/.config/fish/completions/callgate.fish
function __callgate_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete "=$current" $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path $current
        else
            printf '%s\n' $line
        end
    end
end
complete -c callgate -f -a '(__callgate_complete)'
